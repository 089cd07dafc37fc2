"""A small text generation server with a memory leak, to try leakpath on.

Requests come one after another; each grows a KV cache token by token. A session store keeps the cache while a request
runs, so that a client may come back to it. Some clients go away before the last token: the handler then returns early,
answers 499 and never tells the store to forget the session. That is the leak.

    leakpath collect cupti -o capture/cupti.arrow -- \
        leakpath collect torch -o capture/snapshot.pickle -- \
        leakpath collect nvml -o capture/nvml.csv -- python workload.py --out capture

Needs torch, transformers, prometheus_client and a CUDA GPU. Writes requests.jsonl, tokens.csv and metrics.prom into
--out, and with --truth the addresses of the leaked tensors, for tests.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import time
from pathlib import Path

import torch
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from transformers import DynamicCache, LlamaConfig, LlamaForCausalLM

MODEL = "tiny-llama"
VOCABULARY = 4096
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class SessionStore:
    """Keeps a session's KV cache while its request runs."""

    def __init__(self) -> None:
        self.caches: dict[int, DynamicCache] = {}

    def remember(self, session: int, cache: DynamicCache) -> None:
        self.caches[session] = cache

    def forget(self, session: int) -> None:
        self.caches.pop(session, None)


SESSIONS = SessionStore()


class Telemetry:
    """The server's own logs: one line a request, one a token, and Prometheus metrics scraped now and then."""

    def __init__(self, folder: Path) -> None:
        self.requests = (folder / "requests.jsonl").open("w", buffering=1)
        self.tokens = (folder / "tokens.csv").open("w", buffering=1)
        self.scrapes = (folder / "metrics.prom").open("w")
        self.tokens.write("timestamp_ns,request_id,token_index,rss_bytes,cuda_allocated_bytes\n")
        self.registry = CollectorRegistry()
        self.latency = self._histogram("llm_request_e2e_latency_seconds", "End-to-end request latency")
        self.first_token = self._histogram("llm_time_to_first_token_seconds", "Time to first token")
        self.by_status = Counter("llm_requests", "Requests by status", ["model", "status"], registry=self.registry)
        self.sessions = Gauge("llm_sessions", "Sessions in the store", ["model"], registry=self.registry)

    def _histogram(self, name: str, text: str) -> Histogram:
        buckets = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)
        return Histogram(name, text, ["model"], registry=self.registry, buckets=buckets)

    def token(self, request_id: int, index: int) -> None:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        row = (time.time_ns(), request_id, index, pages * PAGE_BYTES, torch.cuda.memory_allocated())
        self.tokens.write(",".join(map(str, row)) + "\n")

    def finished(self, record: dict[str, int], sessions: int) -> None:
        self.requests.write(json.dumps(record) + "\n")
        self.latency.labels(MODEL).observe((record["end_ns"] - record["arrival_ns"]) / 1e9)
        self.first_token.labels(MODEL).observe((record["first_token_ns"] - record["arrival_ns"]) / 1e9)
        self.by_status.labels(MODEL, str(record["status"])).inc()
        self.sessions.labels(MODEL).set(sessions)

    def scrape(self) -> None:
        self.scrapes.write(f"# scrape {time.time_ns()}\n{generate_latest(self.registry).decode()}")

    def close(self) -> None:
        for file in (self.requests, self.tokens, self.scrapes):
            file.close()


class Server:
    def __init__(self, model: LlamaForCausalLM, telemetry: Telemetry) -> None:
        self.model, self.telemetry = model, telemetry

    @torch.no_grad()
    def handle(self, request_id: int, prompt_tokens: int, wanted_tokens: int, leaves_after: int | None) -> None:
        """Serve one request; the client leaves after `leaves_after` tokens, None: it stays to the end."""
        torch.cuda.nvtx.range_push(f"request:{request_id}")
        arrival = time.time_ns()
        cache = DynamicCache()
        SESSIONS.remember(request_id, cache)
        token = self.prefill(prompt_tokens, cache)
        first = time.time_ns()
        self.telemetry.token(request_id, 0)
        status, made = self.decode(request_id, token, cache, wanted_tokens, leaves_after)
        record = {
            "request_id": request_id,
            "arrival_ns": arrival,
            "start_ns": arrival,
            "first_token_ns": first,
            "end_ns": time.time_ns(),
            "prompt_tokens": prompt_tokens,
            "output_tokens": made,
            "status": status,
        }
        self.telemetry.finished(record, len(SESSIONS.caches))
        torch.cuda.nvtx.range_pop()

    def prefill(self, prompt_tokens: int, cache: DynamicCache) -> torch.Tensor:
        torch.cuda.nvtx.range_push("prefill")
        prompt = torch.randint(0, VOCABULARY, (1, prompt_tokens)).to("cuda")
        token = self.step(prompt, cache)
        torch.cuda.synchronize()
        torch.cuda.nvtx.range_pop()
        return token

    def decode(
        self, request_id: int, token: torch.Tensor, cache: DynamicCache, wanted: int, leaves_after: int | None
    ) -> tuple[int, int]:
        """Generate up to `wanted` tokens; (HTTP status, tokens made)."""
        torch.cuda.nvtx.range_push("decode")
        try:
            for index in range(1, wanted):
                if index == leaves_after:
                    return 499, index  # the client is gone: the session is never forgotten
                token = self.step(token, cache)
                self.telemetry.token(request_id, index)
            SESSIONS.forget(request_id)
            return 200, wanted
        finally:
            torch.cuda.synchronize()
            torch.cuda.nvtx.range_pop()

    def step(self, tokens: torch.Tensor, cache: DynamicCache) -> torch.Tensor:
        logits = self.model(input_ids=tokens, past_key_values=cache, use_cache=True).logits
        return logits[:, -1].argmax(-1, keepdim=True)


def build_model(layers: int) -> LlamaForCausalLM:
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=512,
        intermediate_size=1408,
        num_hidden_layers=layers,
        num_attention_heads=8,
        num_key_value_heads=8,
        max_position_embeddings=2048,
        attn_implementation="sdpa",
    )
    return LlamaForCausalLM(config).to("cuda", dtype=torch.bfloat16).eval()


def serve(server: Server, requests: int, leave_ratio: float) -> None:
    for request_id in range(requests):
        prompt, wanted = random.choice([96, 160, 256, 352, 448]), random.randint(4, 8)
        leaves = random.random() < leave_ratio
        server.handle(request_id, prompt, wanted, random.randint(2, wanted - 1) if leaves else None)
        if request_id % 4 == 3:
            server.telemetry.scrape()


def truth() -> dict[str, object]:
    """What leaked: (address, bytes) of every storage that a forgotten session still holds, by request."""
    held = {
        request_id: [
            [part.untyped_storage().data_ptr(), part.untyped_storage().nbytes()]
            for layer in cache.layers
            for part in (layer.keys, layer.values)
        ]
        for request_id, cache in SESSIONS.caches.items()
    }
    storages = [storage for parts in held.values() for storage in parts]
    return {
        "root_cause": "kv_cache",
        "function": "SessionStore.remember",
        "requests": list(held),
        "storages": storages,
        "storages_by_request": held,
        "bytes": sum(size for _, size in storages),
        "torch": torch.__version__,
        "device": torch.cuda.get_device_name(),
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--truth", type=Path)
    parser.add_argument("--requests", type=int, default=24)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--leave-ratio", type=float, default=0.3)
    parser.add_argument("--seed", type=int, default=10)
    options = parser.parse_args()
    random.seed(options.seed)
    torch.manual_seed(options.seed)
    telemetry = Telemetry(options.out)
    server = Server(build_model(options.layers), telemetry)
    torch.cuda.synchronize()
    began = time.perf_counter()
    serve(server, options.requests, options.leave_ratio)
    took = time.perf_counter() - began
    telemetry.scrape()
    telemetry.close()
    if options.truth:
        options.truth.write_text(json.dumps(truth(), indent=1) + "\n")
    print(f"{options.requests} requests in {took:.3f} s, {len(SESSIONS.caches)} sessions left in the store")


if __name__ == "__main__":
    main()
