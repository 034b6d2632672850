#!/usr/bin/env node
// A small agent in JavaScript: turns, streaming text, an approval, and what the phone wants of it.
//
// It needs nothing but Node and `agent-presence` (or AGENT_PRESENCE_BIN). Run it, then
// `agent-presence watch` in another terminal: send it a text.

import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { setTimeout as pause } from "node:timers/promises";

/** Speaks JSON-RPC with `agent-presence link`, which is our presence while we run. */
class Link {
  constructor(agent, takes) {
    const program = process.env.AGENT_PRESENCE_BIN ?? "agent-presence";
    // Detached: a Ctrl-C at the terminal is for us, and the link ends with us.
    this.process = spawn(program, ["link", "--agent", agent, "--takes", takes], {
      stdio: ["pipe", "pipe", "inherit"],
      detached: true,
    });
    this.answers = new Map();
    this.nextId = 0;
    this.onWish = () => {};
    this.ended = new Promise((resolve) => this.process.on("exit", resolve));
    createInterface({ input: this.process.stdout }).on("line", (line) => {
      const message = JSON.parse(line);
      if (message.method === "wish") return this.onWish(message.params);
      const answer = this.answers.get(message.id);
      this.answers.delete(message.id);
      if (message.error) answer?.reject(new Error(message.error.message));
      else answer?.resolve(message.result);
    });
  }

  /** One request, and its result: an ask takes as long as the user does. */
  call(method, params = {}) {
    const id = ++this.nextId;
    this.process.stdin.write(JSON.stringify({ jsonrpc: "2.0", id, method, params }) + "\n");
    return new Promise((resolve, reject) => this.answers.set(id, { resolve, reject }));
  }

  /** The link ends when its stdin does. */
  close() {
    this.process.stdin.end();
    return this.ended;
  }
}

const session = "example-1";
const link = new Link("example-agent", "send,stop");
let turns = 0;
let stopped = false;

/** One turn: from the user's word to idle. */
async function turn(task) {
  const number = ++turns;
  stopped = false;
  await link.call("state", { session, state: "working" });
  let text = "";
  for (const word of `You said: ${task}`.split(" ")) {
    text = `${text} ${word}`.trim();
    await link.call("say", { session, id: `reply-${number}`, text, partial: true });
    await pause(50);
    if (stopped) {
      await link.call("say", { session, kind: "notice", text: "Stopped." });
      return link.call("state", { session, state: "idle" });
    }
  }
  await link.call("say", { session, id: `reply-${number}`, text });

  const call = `call-${number}`;
  const verdict = await link.call("approve", { session, tool: "note", arguments: { text: task }, call });
  const status = verdict.approved ? "ok" : "denied";
  await link.call("item", { session, item: { id: call, kind: "tool", name: "note", status, input: task } });
  console.log(`${task}: ${verdict.approved ? "noted" : "not noted"}`);
  await link.call("state", { session, state: "idle" });
}

const quit = new Promise((resolve, reject) => {
  link.onWish = async (wish) => {
    try {
      await link.call("accept", { requestId: wish.requestId });
      // A stop comes in the middle of a turn; a text waits for its end.
      if (wish.wanted === "stop") stopped = true;
      else if (wish.text === "quit") resolve();
      else await turn(wish.text);
    } catch (error) {
      reject(error);
    }
  };
});
await link.call("open", { session, title: "An example" });
await link.call("subscribe");
await quit;
await link.call("release", { session });
await link.close();
