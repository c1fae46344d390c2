// 300 workers, one after the other: each has a heap of its own, allocates, and ends.
"use strict";
const { Worker } = require("worker_threads");
const source = `
  const { parentPort, workerData } = require("worker_threads");
  const kept = [];
  let sum = 0;
  for (let i = 0; i < 200; i++) {
    const buffer = Buffer.alloc(1000 + ((workerData * 37 + i * 101) % 20000), i & 255);
    kept.push(buffer, { name: "object " + i, list: Array.from({ length: i % 50 }, (_, k) => k * i) });
    sum = (sum + buffer[buffer.length - 1] * i + JSON.stringify(kept[kept.length - 1]).length) % 1000003;
  }
  parentPort.postMessage(sum);
`;
(async () => {
  let total = 0;
  for (let n = 0; n < 300; n++) {
    total += await new Promise((resolve, reject) => {
      let answer;
      const worker = new Worker(source, { eval: true, workerData: n });
      worker.on("message", (sum) => (answer = sum));
      worker.on("error", reject);
      worker.on("exit", (code) => (code === 0 ? resolve(answer) : reject(new Error("exit " + code))));
    });
  }
  console.log(total);
})();
