# Threads that make and drop objects, then a collection at every chance.
require 'json'
sums = 8.times.map do |n|
  Thread.new do
    rows = (0...15_000).map { |i| { id: i, name: "item #{i}", tags: ["t#{i % 3}", "t#{i % (n + 2)}"] } }
    back = JSON.parse(JSON.generate(rows))
    back.group_by { |row| row['tags'] }.sum { |tags, list| tags.join.size * list.size } + back.map { |r| r['name'].upcase }.join(',').size
  end
end.map(&:value)
puts sums.inspect
GC.stress = true
stressed = 4.times.map do |n|
  Thread.new { (0...60).map { |i| ('x' * (i * 97 % 3000) + n.to_s).sub(/x+/, &:upcase).size }.sum }
end.map(&:value)
GC.stress = false
puts stressed.inspect
GC.compact if GC.respond_to?(:compact)
reader, writer = IO.pipe
child = fork { reader.close; writer.write((0...50_000).map(&:to_s).join.size); writer.close }
writer.close
puts reader.read
Process.wait(child)
puts $?.exitstatus
