# Dictionaries, lists, strings and JSON, as a script that reshapes data has them.
import json

rows = []
for i in range(60_000):
    rows.append({"id": i, "name": "item %d" % i, "tags": ["t%d" % (i % k) for k in (3, 7, 11)], "price": i * 1.25})
text = json.dumps(rows)
back = json.loads(text)

words = {}
for row in back:
    for tag in row["tags"]:
        words.setdefault(tag, []).append(row["name"].upper())
joined = {tag: ",".join(reversed(names)) for tag, names in words.items()}

total = 0
for step in range(40):
    window = back[step * 1_000:(step + 10) * 1_000]
    copies = [dict(row, step=step) for row in window]
    total += sum(len(str(row)) for row in copies)
print(len(text), len(joined), sum(map(len, joined.values())), total)
