-- Tables, strings and closures, as a program has them that is scripted in Lua.
local people, sum = {}, 0
for i = 1, 20000 do
  people[i] = { id = i, name = "name" .. i, marks = { i % 7, i % 11, i % 13 },
                greet = function(word) return word .. i end }
end
for round = 1, 4 do
  local groups = {}
  for _, person in ipairs(people) do
    local key = person.marks[1] .. ":" .. person.marks[2] .. ":" .. (person.id % 500)
    local group = groups[key]
    if not group then
      group = {}
      groups[key] = group
    end
    group[#group + 1] = person.greet("hello ") .. string.rep("-", person.id % 60)
  end
  local keys = {}
  for key in pairs(groups) do keys[#keys + 1] = key end
  -- The order of a table differs from run to run.
  table.sort(keys)
  local parts = {}
  for i, key in ipairs(keys) do parts[i] = key .. "=" .. table.concat(groups[key], ",") end
  local text = table.concat(parts, "\n"):gsub("%d+", function(d) return d:reverse() end)
  sum = (sum * 31 + #text + #keys) % 1000003
end
print(sum)
