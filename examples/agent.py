#!/usr/bin/env python3
"""A small agent in Python: turns, streaming text, an approval, and what the phone wants of it.

It needs nothing but the standard library and `agent-presence` (or AGENT_PRESENCE_BIN).
Run it, then `agent-presence watch` in another terminal: send it a text.
"""

import json
import os
import queue
import subprocess
import threading


class Link:
    """Speaks JSON-RPC with `agent-presence link`, which is our presence while we run."""

    def __init__(self, agent, takes):
        program = os.environ.get("AGENT_PRESENCE_BIN", "agent-presence")
        # A session of its own: a Ctrl-C at the terminal is for us, and the link ends with us.
        self.process = subprocess.Popen(
            [program, "link", "--agent", agent, "--takes", takes],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True)
        self.wishes = queue.Queue()
        self._answers = {}
        self._next_id = 0
        self._lock = threading.Lock()
        threading.Thread(target=self._read, daemon=True).start()

    def call(self, method, **params):
        """One request, and its result: an ask takes as long as the user does."""
        answer = queue.Queue()
        with self._lock:
            self._next_id += 1
            request = {"jsonrpc": "2.0", "id": self._next_id, "method": method, "params": params}
            self._answers[self._next_id] = answer
            print(json.dumps(request), file=self.process.stdin, flush=True)
        message = answer.get()
        if message is None:
            raise ConnectionError("the link has ended")
        if "error" in message:
            raise ValueError(message["error"]["message"])
        return message["result"]

    def close(self):
        """The link ends when its stdin does."""
        self.process.stdin.close()
        self.process.wait()

    def _read(self):
        for line in self.process.stdout:
            message = json.loads(line)
            if message.get("method") == "wish":
                self.wishes.put(message["params"])
            elif message["id"] is not None:
                self._answers.pop(message["id"]).put(message)
        self.wishes.put(None)
        for answer in list(self._answers.values()):
            answer.put(None)


SESSION = "example-1"


def turn(link, number, task):
    """One turn: from the user's word to idle."""
    link.call("state", session=SESSION, state="working")
    text = ""
    for word in f"You said: {task}".split():
        text = f"{text} {word}".strip()
        link.call("say", session=SESSION, id=f"reply-{number}", text=text, partial=True)
        try:
            stop = link.wishes.get(timeout=0.05)  # A stop comes in the middle of a turn.
        except queue.Empty:
            continue
        if stop is None:
            return
        link.call("accept", requestId=stop["requestId"])
        link.call("say", session=SESSION, kind="notice", text="Stopped.")
        link.call("state", session=SESSION, state="idle")
        return
    link.call("say", session=SESSION, id=f"reply-{number}", text=text)

    call = f"call-{number}"
    verdict = link.call("approve", session=SESSION, tool="note", arguments={"text": task}, call=call)
    status = "ok" if verdict["approved"] else "denied"
    item = {"id": call, "kind": "tool", "name": "note", "status": status, "input": task}
    link.call("item", session=SESSION, item=item)
    print(f"{task}: {'noted' if verdict['approved'] else 'not noted'}", flush=True)
    link.call("state", session=SESSION, state="idle")


def main():
    link = Link("example-agent", takes="send,stop")
    link.call("open", session=SESSION, title="An example")
    link.call("subscribe")
    number = 0
    while (wish := link.wishes.get()) is not None:
        link.call("accept", requestId=wish["requestId"])
        if wish["wanted"] != "send":
            continue  # Nothing runs that could be stopped.
        if wish["text"] == "quit":
            break
        number += 1
        turn(link, number, wish["text"])
    link.call("release", session=SESSION)
    link.close()


if __name__ == "__main__":
    main()
