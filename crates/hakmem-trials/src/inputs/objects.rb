# Strings, arrays, hashes, symbols and sorting, as a small web application has them.
Entry = Struct.new(:id, :name, :tags, :at)

entries = Array.new(30_000) do |i|
  Entry.new(i, "entry #{i} of many", ["t#{i % 7}", "t#{i % 31}"], { day: i % 365, text: 'x' * (i % 90) })
end
sum = 0
index = Hash.new { |hash, key| hash[key] = [] }
3.times do |round|
  entries.each { |e| index["#{e.tags.join('/')}:#{e.at[:day]}:#{round}"] << e.id }
  lines = entries.select { |e| e.id % 3 == round % 3 }.map do |e|
    e.name.sub(/\d+/) { |digits| digits.reverse }.upcase + "\t" + e.at[:text]
  end
  lines.sort!
  sum = (sum * 31 + lines.join("\n").bytesize + index.size) % 1_000_003
  index.delete_if { |_, ids| ids.size > 3 && ids.first.odd? }
end
puts sum, index.size, index.values.sum(&:size)
