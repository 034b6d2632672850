"""A model on loopback that answers by a script, for scripts/real-agents: Anthropic's messages, and OpenAI's
responses and chat completions, each streamed.

What the last message of the user contains decides: "touch the file" is answered with a call of the agent's
shell tool, "count to six hundred" with a text that takes minutes, a tool's result and everything else with a short
text.
"""

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

ANSWER = "All done here."
TOOL_ANSWER = "The command has run."
# A piece of the long answer, and how long it takes.
WORDS, PAUSE = 600, 0.2


class Model:
    """Serves on a free port of loopback from now on."""

    def __init__(self, command):
        self.command = command
        self.requests = []
        model = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_GET(self):
                self.json({"data": [], "object": "list"})

            def do_HEAD(self):
                self.json({})

            def do_POST(self):
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                try:
                    request = json.loads(body)
                except ValueError:
                    return self.json({})
                path = self.path.partition("?")[0]
                model.requests.append((path, request))
                try:
                    if path.endswith("/messages"):
                        self.anthropic(request)
                    elif path.endswith("/responses"):
                        self.openai(request)
                    elif path.endswith("/chat/completions"):
                        self.completions(request)
                    else:
                        self.json({"input_tokens": 10})
                except (BrokenPipeError, ConnectionResetError):
                    pass  # The turn was stopped.

            def json(self, value):
                body = json.dumps(value).encode()
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body)

            def begin(self):
                self.send_response(200)
                self.send_header("content-type", "text/event-stream")
                self.send_header("connection", "close")
                self.end_headers()
                self.close_connection = True

            def event(self, value, name=None):
                text = f"event: {name}\n" if name else ""
                value = dict(value, type=name) if name else value
                text += "data: " + (value if isinstance(value, str) else json.dumps(value)) + "\n\n"
                self.wfile.write(text.encode())
                self.wfile.flush()

            def pieces(self, answer):
                if answer != "long":
                    # Not at once: a turn of no time is nothing to see.
                    time.sleep(1)
                    yield answer
                    return
                for number in range(WORDS):
                    yield f"word{number} "
                    time.sleep(PAUSE)

            def anthropic(self, request):
                content = request["messages"][-1]["content"]
                parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
                kinds = {part.get("type") for part in parts}
                texts = " ".join(part.get("text", "") for part in parts)
                tools = {tool.get("name") for tool in request.get("tools", [])}
                answer = decide(texts, "tool_result" in kinds, "Bash" in tools)
                message = {"id": f"msg_{time.time_ns()}", "type": "message", "role": "assistant",
                           "model": request.get("model", "m"), "content": [], "stop_reason": None,
                           "stop_sequence": None, "usage": {"input_tokens": 10, "output_tokens": 1}}
                if not request.get("stream"):
                    text = [{"type": "text", "text": ANSWER}]
                    return self.json(dict(message, content=text, stop_reason="end_turn"))
                self.begin()
                self.event({"message": message}, "message_start")
                if answer == "tool":
                    block = {"type": "tool_use", "id": f"toolu_{time.time_ns()}", "name": "Bash", "input": {}}
                    self.event({"index": 0, "content_block": block}, "content_block_start")
                    call = json.dumps({"command": model.command, "description": "Make a file"})
                    delta = {"type": "input_json_delta", "partial_json": call}
                    self.event({"index": 0, "delta": delta}, "content_block_delta")
                else:
                    block = {"type": "text", "text": ""}
                    self.event({"index": 0, "content_block": block}, "content_block_start")
                    for piece in self.pieces(answer):
                        delta = {"type": "text_delta", "text": piece}
                        self.event({"index": 0, "delta": delta}, "content_block_delta")
                self.event({"index": 0}, "content_block_stop")
                stop = "tool_use" if answer == "tool" else "end_turn"
                self.event({"delta": {"stop_reason": stop, "stop_sequence": None},
                            "usage": {"output_tokens": 5}}, "message_delta")
                self.event({}, "message_stop")

            def openai(self, request):
                given = request.get("input", [])
                last = given[-1] if given else {}
                texts = json.dumps(last.get("content", ""))
                names = {tool.get("name") for tool in request.get("tools", [])}
                shell = next((name for name in ["exec_command", "shell_command", "shell"] if name in names), None)
                answer = decide(texts, last.get("type", "").endswith("_call_output"), shell)
                response = {"id": f"resp_{time.time_ns()}", "object": "response", "status": "in_progress",
                            "output": []}
                self.begin()
                self.event({"response": response}, "response.created")
                if answer == "tool":
                    words = {"exec_command": {"cmd": model.command}, "shell_command": {"command": model.command},
                             "shell": {"command": ["sh", "-c", model.command]}}[shell]
                    escalated = {"sandbox_permissions": "require_escalated", "justification": "Make a file?"}
                    item = {"type": "function_call", "id": f"fc_{time.time_ns()}", "name": shell,
                            "call_id": f"call_{time.time_ns()}", "arguments": json.dumps(words | escalated)}
                    self.event({"output_index": 0, "item": item}, "response.output_item.added")
                else:
                    item = {"type": "message", "id": f"msg_{time.time_ns()}", "role": "assistant", "content": []}
                    self.event({"output_index": 0, "item": item}, "response.output_item.added")
                    text = ""
                    for piece in self.pieces(answer):
                        text += piece
                        self.event({"item_id": item["id"], "output_index": 0, "content_index": 0,
                                    "delta": piece}, "response.output_text.delta")
                    item["content"] = [{"type": "output_text", "text": text, "annotations": []}]
                self.event({"output_index": 0, "item": item}, "response.output_item.done")
                usage = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15,
                         "input_tokens_details": {"cached_tokens": 0},
                         "output_tokens_details": {"reasoning_tokens": 0}}
                done = dict(response, status="completed", output=[item], usage=usage)
                self.event({"response": done}, "response.completed")

            def completions(self, request):
                last = request["messages"][-1]
                names = {tool["function"]["name"] for tool in request.get("tools", [])}
                answer = decide(json.dumps(last.get("content")), last["role"] == "tool", "bash" in names)

                def chunk(delta, end=None):
                    self.event({"id": "c", "object": "chat.completion.chunk", "created": 0, "model": "scripted",
                                "choices": [{"index": 0, "delta": delta, "finish_reason": end}]})

                if not request.get("stream"):
                    message = {"role": "assistant", "content": ANSWER}
                    return self.json({"id": "c", "object": "chat.completion", "choices": [
                        {"index": 0, "message": message, "finish_reason": "stop"}]})
                self.begin()
                chunk({"role": "assistant", "content": ""})
                if answer == "tool":
                    call = json.dumps({"command": model.command, "description": "Make a file"})
                    chunk({"tool_calls": [{"index": 0, "id": f"call_{time.time_ns()}", "type": "function",
                                           "function": {"name": "bash", "arguments": call}}]})
                    chunk({}, "tool_calls")
                else:
                    for piece in self.pieces(answer):
                        chunk({"content": piece})
                    chunk({}, "stop")
                self.event("[DONE]")

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


def decide(text, is_result, has_shell):
    if is_result:
        return TOOL_ANSWER
    if "count to six hundred" in text:
        return "long"
    return "tool" if "touch the file" in text and has_shell else ANSWER
