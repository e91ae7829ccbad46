// ioredis against a running server: node ioredis.js PORT
//
// Prints RESTART when the server is to be started again on the same port, and goes on when it reads a line.
// Every check is an assertion; the last line is OK.

"use strict";

const assert = require("node:assert/strict");
const readline = require("node:readline");
const { Redis } = require(require.resolve("ioredis", { paths: [process.env.QUIPU_NODE_MODULES] }));

const port = Number(process.argv[2]);
const options = {
  host: "127.0.0.1",
  port,
  // Nothing is sent twice unless this program says so.
  maxRetriesPerRequest: 0,
  autoResendUnfulfilledCommands: false,
  retryStrategy: (times) => Math.min(times * 50, 500),
};
const client = new Redis(options);
// Said whenever a connection breaks, as it does here on purpose.
client.on("error", () => {});

const key = (name) => `io:${name}`;
const refused = (words, promise) => assert.rejects(promise, (error) => error.message.includes(words));

async function counting() {
  assert.equal(await client.ping(), "PONG");
  assert.equal(await client.wait(1, 50), 0);
  assert.equal(await client.incr(key("a")), 1);
  assert.equal(await client.incrby(key("a"), 41), 42);
  assert.equal(await client.decr(key("a")), 41);
  assert.equal(await client.decrby(key("a"), 1), 40);
  assert.equal(await client.get(key("a")), "40");
  assert.equal(await client.get(key("nothing")), null);
  assert.equal(await client.set(key("b"), -7), "OK");
  assert.deepEqual(await client.mget(key("a"), key("nothing"), key("b")), ["40", null, "-7"]);
  assert.equal(await client.exists(key("a"), key("a"), key("nothing")), 2);
  assert.equal(await client.type(key("a")), "string");
  assert.equal(await client.del(key("a"), key("b"), key("nothing")), 2);
  // Beyond what a number of JavaScript holds, as text.
  await client.set(key("big"), "9007199254740993");
  assert.equal(await client.get(key("big")), "9007199254740993");
}

async function exactlyOnce() {
  const add = (amount, id) => client.call("INCRBY", key("once"), amount, "IDMP", "io", id);
  assert.equal(await add(5, "1"), 5);
  assert.equal(await add(5, "1"), 5);
  assert.equal(await add(5, "2"), 10);
  await refused("IDMPMISMATCH", add(6, "1"));
  assert.equal(await client.get(key("once")), "10");
  assert.deepEqual(await client.call("COUNTER.OUTCOME", key("once"), "io", "2"), ["counted", 10, 5, "1"]);
}

async function bounded() {
  assert.equal(await client.call("COUNTER.CREATE", key("stock"), "MIN", 0, "VALUE", 1), "OK");
  assert.equal(await client.decr(key("stock")), 0);
  await refused("OUTOFBOUNDS", client.decr(key("stock")));
}

async function pipelines() {
  const plain = await client.pipeline().incr(key("p")).incrby(key("p"), 10).get(key("p")).get(key("nothing")).exec();
  assert.deepEqual(plain, [[null, 1], [null, 11], [null, "11"], [null, null]]);
  const transaction = await client.multi().incr(key("p")).call("INCRBY", key("p"), "x").incr(key("p")).exec();
  assert.deepEqual([transaction[0], transaction[2]], [[null, 12], [null, 13]]);
  assert.match(transaction[1][0].message, /not an integer/);
  const many = client.pipeline();
  for (let index = 0; index < 1000; index += 1) many.incr(key("p"));
  assert.deepEqual((await many.exec()).at(-1), [null, 1013]);
  await refused("EXECABORT", client.multi().incr(key("p")).call("INCR").exec());
  assert.equal(await client.get(key("p")), "1013");
  const automatic = new Redis({ ...options, enableAutoPipelining: true });
  const all = await Promise.all(Array.from({ length: 500 }, () => automatic.incr(key("auto"))));
  assert.equal(Math.max(...all), 500);
  automatic.disconnect();
}

async function lists() {
  const names = Array.from({ length: 1500 }, (_, index) => key(`scan:${index}`));
  const set = client.pipeline();
  names.forEach((name) => set.set(name, 1));
  await set.exec();
  const found = [];
  for await (const page of client.scanStream({ match: key("scan:*"), count: 100 })) found.push(...page);
  assert.deepEqual(found.sort(), names.sort());
  assert.equal(await client.del(...names), names.length);
}

async function errors() {
  await refused("value is not an integer", client.set(key("e"), "text"));
  await refused("INCRBYFLOAT is not supported", client.incrbyfloat(key("e"), 1.5));
  await refused("EXPIRE is not supported", client.expire(key("e"), 10));
  await refused("unknown command", client.call("NOSUCH"));
}

async function crowds() {
  const clients = Array.from({ length: 20 }, () => new Redis(options));
  await Promise.all(
    clients.map(async (one) => {
      for (let index = 0; index < 50; index += 1) await one.incr(key("crowd"));
    }),
  );
  assert.equal(await client.get(key("crowd")), "1000");
  await Promise.all(clients.map((one) => one.quit()));
}

async function reconnecting() {
  const add = (id) => client.call("INCRBY", key("r"), 1, "IDMP", "io", id);
  assert.equal(await add("r1"), 1);
  const lines = readline.createInterface({ input: process.stdin });
  const answer = new Promise((resolve) => lines.once("line", resolve));
  console.log("RESTART");
  await answer;
  lines.close();
  if (client.status !== "ready") await new Promise((resolve) => client.once("ready", resolve));
  assert.equal(await add("r1"), 1);
  assert.equal(await add("r2"), 2);
}

async function main() {
  for (const check of [counting, exactlyOnce, bounded, pipelines, lists, errors, crowds, reconnecting]) {
    await check();
    console.log(check.name);
  }
  await client.quit();
  console.log("OK");
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
