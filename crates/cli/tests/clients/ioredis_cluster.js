// Cluster of ioredis against nodes that share a site: node ioredis_cluster.js PORT
//
// Says in capital letters what it wants to be done to the nodes, and goes on when it reads a line: MARK and STRAIGHT
// compare how many commands have taken a detour between the two, DRAIN and KILL let a node go and come back. Every check
// is an assertion; the last line is OK.

"use strict";

const assert = require("node:assert/strict");
const readline = require("node:readline");
const { Redis } = require(require.resolve("ioredis", { paths: [process.env.QUIPU_NODE_MODULES] }));

const port = Number(process.argv[2]);
const KEYS = 40;
const PRODUCERS = 4;
const cluster = new Redis.Cluster([{ host: "127.0.0.1", port }], {
  slotsRefreshTimeout: 10000,
  clusterRetryStrategy: () => 100,
  redisOptions: { commandTimeout: 10000 },
});
// Said whenever a connection breaks, as it does here on purpose.
cluster.on("error", () => {});

const lines = readline.createInterface({ input: process.stdin });
const answers = lines[Symbol.asyncIterator]();
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const refused = (words, promise) => assert.rejects(promise, (error) => error.message.includes(words));

async function ask(word) {
  console.log(word);
  assert.equal((await answers.next()).done, false, "nobody listens");
}

async function counting() {
  for (let number = 0; number < KEYS; number += 1) {
    assert.equal(await cluster.incr(`io:${number}`), 1);
    assert.equal(await cluster.incrby(`io:${number}`, number), 1 + number);
  }
  assert.equal(cluster.nodes("master").length, 3);
  assert.deepEqual(await cluster.mget("{tag}a", "{tag}b"), [null, null]);
  await refused("CROSSSLOT", cluster.mget("io:1", "io:2"));
  assert.equal(await cluster.call("COUNTER.CREATE", "stock", "MIN", 0, "VALUE", 1), "OK");
  assert.equal(await cluster.decr("stock"), 0);
  await refused("OUTOFBOUNDS", cluster.decr("stock"));
}

async function transactions() {
  const done = await cluster.multi().incr("{pair}a").incrby("{pair}b", 5).exec();
  assert.deepEqual(done, [[null, 1], [null, 5]]);
  const read = await cluster.pipeline().get("{pair}a").get("{pair}b").exec();
  assert.deepEqual(read, [[null, "1"], [null, "5"]]);
}

// Each node tells of its own counters alone.
async function lists() {
  const names = Array.from({ length: KEYS }, (_, number) => `io:${number}`).concat(["stock", "{pair}a", "{pair}b"]);
  const found = [];
  let size = 0;
  for (const node of cluster.nodes("master")) {
    for await (const page of node.scanStream({ count: 7 })) found.push(...page);
    size += await node.dbsize();
  }
  assert.deepEqual(found.sort(), names.sort());
  assert.equal(size, names.length);
}

async function straight() {
  await ask("MARK");
  for (let number = 0; number < 300; number += 1) await cluster.incr(`io:${number % KEYS}`);
  await ask("STRAIGHT");
}

// Sends the same until it is answered.
async function untilAnswered(key, producer, number, errors) {
  for (;;) {
    try {
      return await cluster.incrby(key, 1, "IDMP", producer, number);
    } catch (error) {
      const isReply = error.name === "ReplyError";
      assert.ok(!isReply || /^(INDOUBT|NOTSTORED|TRYAGAIN|MOVED)/.test(error.message), error);
      errors.push(error);
      await sleep(50);
    }
  }
}

async function trouble() {
  const sums = Array(KEYS).fill(0);
  const errors = [];
  let stop = false;
  let longest = 0;
  const produce = async (producer) => {
    for (let number = 0; !stop; number += 1) {
      const at = (number * 7 + producer) % KEYS;
      const began = Date.now();
      await untilAnswered(`once:${at}`, `io-${producer}`, number, errors);
      sums[at] += 1;
      longest = Math.max(longest, Date.now() - began);
    }
  };
  const producers = Promise.all(Array.from({ length: PRODUCERS }, (_, producer) => produce(producer)));
  await sleep(1000);
  await ask("DRAIN");
  // Shards that are handed over are waited for, and MOVED is the library's business.
  assert.deepEqual(errors, []);
  await ask("KILL");
  stop = true;
  await producers;
  const counted = [];
  for (let at = 0; at < KEYS; at += 1) counted.push(Number(await cluster.get(`once:${at}`)));
  assert.deepEqual(counted, sums);
  const all = sums.reduce((one, two) => one + two);
  assert.ok(all > 100, `${all}`);
  console.log(`${all} counted, each once; the longest wait ${longest / 1000} s`);
}

async function main() {
  for (const check of [counting, transactions, lists, straight, trouble]) {
    await check();
    console.log(check.name);
  }
  lines.close();
  cluster.disconnect();
  console.log("OK");
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
