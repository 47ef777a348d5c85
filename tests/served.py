"""An OpenAI-compatible server over a tiny random model, computed by plain transformers; right, or wrong in a way that is asked for."""

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors

SPECIAL = ["<pad>", "<bos>", "<eos>"]
LETTERS = [chr(number) for number in range(33, 127)] + ["Ġ", "Ċ"]  # and how a space and a line break are written


def save(folder: Path, *, bos: bool = True, seed: int = 0) -> str:
    """A random Llama whose tokens are letters of ASCII, so that whatever it writes is read as it was written; its folder."""
    vocabulary = {token: number for number, token in enumerate(SPECIAL + LETTERS)}
    raw = Tokenizer(models.BPE(vocabulary, []))
    raw.pre_tokenizer, raw.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    if bos:
        raw.post_processor = processors.TemplateProcessing(single="<bos> $A", special_tokens=[("<bos>", 1)])
    names = dict(zip(("pad_token", "bos_token", "eos_token"), SPECIAL, strict=True))
    transformers.PreTrainedTokenizerFast(tokenizer_object=raw, **names).save_pretrained(folder)
    torch.manual_seed(seed)
    config = transformers.LlamaConfig(
        vocab_size=len(vocabulary), hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=512, initializer_range=0.4, pad_token_id=0, bos_token_id=1, eos_token_id=2,
    )  # fmt: skip
    model = transformers.LlamaForCausalLM(config)
    model.lm_head.weight.data[:3] = 0  # no special token is ever likely
    model.save_pretrained(folder)
    return str(folder)


class Server(ThreadingHTTPServer):
    """What it is asked it notes in `asked`, as (path, content, headers); its attributes say how it is wrong."""

    daemon_threads = True

    def __init__(self, folder: str):
        super().__init__(("127.0.0.1", 0), Handler)
        self.model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        self.lock, self.asked, self.names = threading.Lock(), [], ["tiny"]
        self.cuts, self.chats, self.heeds_n, self.logprobs = True, False, True, "given"  # or "refused" or "left out"
        self.echo = (
            "right"  # or "left out", "shifted" (values of the place before), "deaf" (the same after every context)
        )
        self.statuses, self.wait = [], "0"  # answered before anything else; what Retry-After says
        self.lives = 10**9  # completions that it answers before it closes every connection
        self.spoil = lambda path, answer: answer  # what becomes of an answer; bytes are sent as they are
        self.stalled = None  # an Event that answers wait for

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    @property
    def prompts(self) -> list:
        return [content["prompt"] for path, content, _ in self.asked if path == "/v1/completions"]

    def handle_error(self, request, client_address):
        """A client that is gone is none of the test's affair."""


@contextmanager
def serving(folder: str, **faults):
    """A server that answers until the end of the block."""
    server = Server(folder)
    vars(server).update(faults)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


class Handler(BaseHTTPRequestHandler):
    def log_message(self, *words):
        """Nothing."""

    def do_GET(self):
        self.answer(None)

    def do_POST(self):
        self.answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

    def answer(self, content):
        server = self.server
        with server.lock:
            server.asked.append((self.path, content, dict(self.headers)))
            if server.statuses:
                return self.send(
                    server.statuses.pop(0), {"error": {"message": f"not now, {self.headers['Authorization']}"}}
                )
            if self.path.endswith("/completions"):
                server.lives -= 1
            if server.lives < 0:
                return self.connection.close()
            ways = {"/v1/models": self.models, "/v1/completions": self.completions, "/tokenize": self.tokenize}
            ways["/v1/chat/completions"] = self.chat
            with torch.inference_mode():
                status, answer = ways.get(self.path, lambda content: (404, {}))(content)
        if server.stalled is not None and self.path != "/v1/models":
            server.stalled.wait(30)
        return self.send(status, server.spoil(self.path, answer) if status == 200 else answer)

    def send(self, status, answer):
        body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        self.send_response(status)
        if status != 200:
            self.send_header("Retry-After", self.server.wait)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def models(self, content):
        return 200, {
            "data": [{"id": name, "owned_by": "tests", "created": len(self.server.asked)} for name in self.server.names]
        }

    def tokenize(self, content):
        if not self.server.cuts:
            return 404, {}
        ids = self.server.tokenizer(content["prompt"], add_special_tokens=content["add_special_tokens"]).input_ids
        return 200, {"tokens": ids, "count": len(ids)}

    def chat(self, content):
        if not self.server.chats:
            return 400, {"message": "no chat template"}
        status, answer = self.completions(
            content | {"prompt": f"user: {content['messages'][0]['content']}\n", "logprobs": 1}
        )
        for choice in answer["choices"]:
            rows = zip(choice["logprobs"]["tokens"], choice["logprobs"]["token_logprobs"], strict=True)
            choice["logprobs"] = {"content": [{"token": token, "logprob": value} for token, value in rows]}
            choice["message"] = {"content": choice.pop("text")}
        return status, answer

    def completions(self, content):
        server, prompt = self.server, content["prompt"]
        if content.get("logprobs") and server.logprobs == "refused":
            return 400, {"error": "logprobs are not supported"}
        ids = prompt if isinstance(prompt, list) else server.tokenizer(prompt).input_ids
        choices = []
        for index in range(content.get("n", 1) if server.heeds_n else 1):
            choices.append(self.choice(ids, content, index) | {"index": index})
        return 200, {"choices": choices, "usage": {"prompt_tokens": len(ids)}}

    def choice(self, ids, content, index):
        server, tokens, ended = self.server, list(ids), "length"
        draws = torch.Generator().manual_seed(content.get("seed", 0) + index)
        for _ in range(content["max_tokens"]):
            logits = server.model(input_ids=torch.tensor([tokens])).logits[0, -1]
            if content["temperature"]:
                weights = torch.softmax(logits / content["temperature"], -1)
                tokens.append(int(torch.multinomial(weights, 1, generator=draws)))
            else:
                tokens.append(int(logits.argmax()))
            text = server.tokenizer.decode(tokens[len(ids) :])
            if any(stop in text for stop in content.get("stop", ())):
                text, ended = min((text.split(stop)[0] for stop in content["stop"]), key=len), "stop"
                break
        shown = 0 if content.get("echo") and server.echo != "left out" else len(ids)
        values = torch.log_softmax(server.model(input_ids=torch.tensor([tokens])).logits[0], -1)
        known = [None, *(float(row[token]) for row, token in zip(values[:-1], tokens[1:], strict=True))]
        if shown == 0 and server.echo == "shifted":
            known = [None, *known[2:], known[-1]]
        if shown == 0 and server.echo == "deaf":
            known = [None, *(-1.0 for _ in tokens[1:])]
        held = {
            "tokens": [server.tokenizer.decode([token]) for token in tokens[shown:]],
            "token_logprobs": known[shown:],
        }
        given = bool(content.get("logprobs")) and server.logprobs == "given"
        return {"text": text, "logprobs": held if given else None, "finish_reason": ended}
