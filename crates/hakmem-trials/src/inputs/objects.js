// JSON, maps, typed arrays and closures, as a server has them between requests.
"use strict";
const users = [];
for (let i = 0; i < 50000; i++) {
  users.push({ id: i, name: "user" + i, roles: ["r" + (i % 5), "r" + (i % 17)], data: { score: i * 0.5, at: [i, i + 1] } });
}
let length = 0;
let sum = 0;
const cache = new Map();
for (let round = 0; round < 8; round++) {
  const text = JSON.stringify(users.slice(round * 1000, round * 1000 + 40000));
  const parsed = JSON.parse(text);
  length += text.length;
  for (const user of parsed) {
    const key = user.roles.join("+") + ":" + (user.id % 977);
    const buffer = Buffer.alloc(64 + (user.id % 2000), user.id & 255);
    cache.set(key, buffer);
    sum = (sum + buffer[buffer.length - 1] + user.data.at[1]) % 1000003;
  }
}
console.log(length, sum, cache.size);
