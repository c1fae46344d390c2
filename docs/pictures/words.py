"""Finds the lines of each word in some files, forgets the rare words, and writes what the heap is like then."""
import ctypes, os, sys

hakmem = ctypes.CDLL(None)
hakmem.hakmem_profile_start(ctypes.c_size_t(65536))
index = {}
for name in sys.argv[1:]:
    for number, line in enumerate(open(name, encoding="utf-8")):
        for word in line.split():
            index.setdefault(word.strip(".,:;()"), []).append((name, number))
for word in [word for word, places in index.items() if len(places) < 4]:
    del index[word]
for name, write in ("words.map", hakmem.hakmem_map), ("words.py.profile", hakmem.hakmem_profile_dump):
    with open(name, "wb") as file:
        if write(file.fileno()) != 0:
            sys.exit(f"cannot write {name}")
