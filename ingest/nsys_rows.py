"""Rows of CUDA activity and operating system calls: what ran where, when, for how long.

Tables: https://docs.nvidia.com/nsight-systems/UserGuide/index.html (SQLite Schema Reference). As in CUPTI's records a
correlation id, a context and a graph of 0 stand for none. A call whose backtrace was collected may stand there twice,
the second time a little longer and with `callchainId`: both are written, as `nsys stats` counts both.
"""

from __future__ import annotations

import polars as pl

from ingest.nsys_session import Session, process_of, thread_of, worded
from ingest.nsys_stacks import CallChains
from ingest.nsys_writer import RowWriter, ints, none_if, small, triple, unsigned

MAX_KNOWN_PATHS = 1_000_000
"""Calls whose call path is kept for the memory events that they made."""

_MEMORY_KINDS = {"device_static": "static", "managed_static": "static"}
_SYNC_KINDS = {
    "event_synchronize": "event",
    "stream_wait_event": "stream_wait",
    "stream_synchronize": "stream",
    "context_synchronize": "context",
}
_MIGRATION = "uvm_"


def memory_words(session: Session) -> dict[int, str]:
    """Words of the kinds of memory, module globals as one."""
    return {number: _MEMORY_KINDS.get(word, word) for number, word in session.words("ENUM_CUDA_MEM_KIND").items()}


def read_api_calls(session: Session, rows: RowWriter) -> dict[tuple[int, int], int]:
    """CUDA and operating system calls; call paths of the CUDA calls that have one, by process and correlation id."""
    chains = CallChains(session, "CUDA_CALLCHAINS")
    paths: dict[tuple[int, int], int] = {}
    wanted = ints("start end globalTid correlationId nameId returnValue callchainId")
    for table in ("CUPTI_ACTIVITY_KIND_RUNTIME", "CUPTI_ACTIVITY_KIND_DRIVER"):
        for frame in session.batches(table, wanted):
            name, api = session.call_name(frame["nameId"])
            made = frame.select(
                api.alias("api").fill_null("runtime"),
                name.alias("name"),
                **_span(session),
                process_id=process_of("globalTid"),
                thread_id=thread_of("globalTid"),
                correlation_id=none_if("correlationId", 0),
                return_code="returnValue",
                call_path_id=chains.paths_of(frame["callchainId"]),
            )
            rows.write("api_calls", made)
            if len(chains) and len(paths) < MAX_KNOWN_PATHS:
                known = made.filter(pl.col("call_path_id").is_not_null() & pl.col("correlation_id").is_not_null())
                known = known.filter(pl.col("name").str.contains("(?i)alloc|free"))
                keys = zip(known["process_id"], known["correlation_id"], strict=True)
                paths |= dict(zip(keys, known["call_path_id"], strict=True))
    return paths


def read_os_calls(session: Session, rows: RowWriter) -> None:
    chains = CallChains(session, "OSRT_CALLCHAINS")
    for frame in session.batches("OSRT_API", ints("start end globalTid nameId returnValue callchainId")):
        made = frame.select(
            session.text(frame["nameId"]).alias("name"),
            **_span(session),
            api=pl.lit("osrt"),
            process_id=process_of("globalTid"),
            thread_id=thread_of("globalTid"),
            return_code="returnValue",
            call_path_id=chains.paths_of(frame["callchainId"]),
        )
        rows.write("api_calls", made, cuda=False)


def _span(session: Session) -> dict[str, pl.Expr]:
    return {"start_ns": session.time("start"), "end_ns": session.time("end")}


_PLACE = "start end deviceId contextId streamId correlationId globalPid "


def _placed(session: Session) -> dict[str, pl.Expr]:
    return {
        **_span(session),
        "process_id": process_of("globalPid"),
        "device_index": small("deviceId"),
        "context_id": none_if("contextId", 0),
        "stream_id": none_if("streamId", 0),
        "correlation_id": none_if("correlationId", 0),
    }


def read_gpu_ops(session: Session, rows: RowWriter) -> None:
    """Kernels, copies and migrations of unified memory, memsets, graph launches and page faults."""
    _read_kernels(session, rows)
    _read_copies(session, rows)
    memory = memory_words(session)
    for frame in session.batches("CUPTI_ACTIVITY_KIND_MEMSET", ints(_PLACE + "bytes memKind graphNodeId")):
        made = frame.select(
            **_placed(session),
            op=pl.lit("memset"),
            size_bytes="bytes",
            dst_kind=worded("memKind", memory),
            graph_node_id=none_if("graphNodeId", 0),
        )
        rows.write("gpu_ops", made)
    for frame in session.batches("CUPTI_ACTIVITY_KIND_GRAPH_TRACE", ints(_PLACE + "graphId")):
        rows.write("gpu_ops", frame.select(**_placed(session), op=pl.lit("graph"), graph_id=none_if("graphId", 0)))
    _read_page_faults(session, rows)


def _read_kernels(session: Session, rows: RowWriter) -> None:
    wanted = ints(
        _PLACE + "demangledName shortName mangledName gridX gridY gridZ blockX blockY blockZ registersPerThread"
        " staticSharedMemory dynamicSharedMemory localMemoryTotal graphId graphNodeId"
    )
    for frame in session.batches("CUPTI_ACTIVITY_KIND_KERNEL", wanted):
        name = session.text(frame["demangledName"])
        for other in ("shortName", "mangledName"):
            if name.null_count():
                name = pl.select(pl.coalesce(name, session.text(frame[other])))[:, 0]
        made = frame.select(
            name.alias("name"),
            **_placed(session),
            op=pl.lit("kernel"),
            grid=triple("grid"),
            block=triple("block"),
            registers_per_thread=small("registersPerThread"),
            static_shared_bytes="staticSharedMemory",
            dynamic_shared_bytes="dynamicSharedMemory",
            local_memory_bytes="localMemoryTotal",
            graph_id=none_if("graphId", 0),
            graph_node_id=none_if("graphNodeId", 0),
        )
        rows.write("gpu_ops", made)


def _read_copies(session: Session, rows: RowWriter) -> None:
    memory, copies = memory_words(session), session.words("ENUM_CUDA_MEMCPY_OPER")
    causes = session.words("ENUM_CUDA_UNIF_MEM_MIGRATION")
    wanted = ints(_PLACE + "bytes copyKind srcKind dstKind migrationCause graphNodeId virtualAddress")
    for frame in session.batches("CUPTI_ACTIVITY_KIND_MEMCPY", wanted):
        kind = worded("copyKind", copies)
        is_migration = kind.str.starts_with(_MIGRATION).fill_null(False)
        made = frame.select(
            **_placed(session),
            op=pl.when(is_migration).then(pl.lit("migration")).otherwise(pl.lit("memcpy")),
            name=pl.when(is_migration).then(worded("migrationCause", causes)),
            size_bytes="bytes",
            address=pl.when(is_migration).then(unsigned("virtualAddress")),
            copy_kind=kind.str.strip_prefix(_MIGRATION),
            src_kind=worded("srcKind", memory),
            dst_kind=worded("dstKind", memory),
            graph_node_id=none_if("graphNodeId", 0),
        )
        rows.write("gpu_ops", made)


def _read_page_faults(session: Session, rows: RowWriter) -> None:
    access = session.words("ENUM_CUDA_UNIF_MEM_ACCESS_TYPE")
    on_gpu = ints("start end globalPid deviceId address faultAccessType")
    for frame in session.batches("CUDA_UM_GPU_PAGE_FAULT_EVENTS", on_gpu):
        made = frame.select(
            **_span(session),
            op=pl.lit("page_fault"),
            name=worded("faultAccessType", access),
            process_id=process_of("globalPid"),
            device_index=small("deviceId"),
            address=unsigned("address"),
        )
        rows.write("gpu_ops", made)
    for frame in session.batches("CUDA_UM_CPU_PAGE_FAULT_EVENTS", ints("start globalPid address CpuInstruction")):
        made = frame.select(
            session.text(frame["CpuInstruction"]).alias("name"),
            op=pl.lit("page_fault"),
            start_ns=session.time("start"),
            process_id=process_of("globalPid"),
            address=unsigned("address"),
        )
        rows.write("gpu_ops", made)


def read_syncs(session: Session, rows: RowWriter) -> None:
    words = {n: _SYNC_KINDS.get(word, word) for n, word in session.words("ENUM_CUPTI_SYNC_TYPE").items()}
    wanted = ints("start end contextId streamId correlationId globalPid syncType eventId")
    for frame in session.batches("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", wanted):
        made = frame.select(
            **_span(session),
            sync_kind=worded("syncType", words),
            process_id=process_of("globalPid"),
            context_id=none_if("contextId", 0),
            stream_id=none_if("streamId", 0, 0xFFFFFFFF, -1),
            event_id=none_if("eventId", 0xFFFFFFFF, -1),
            correlation_id=none_if("correlationId", 0),
        )
        rows.write("sync_events", made)


def read_overheads(session: Session, rows: RowWriter) -> None:
    words = session.words("ENUM_CUPTI_OVERHEAD_TYPE")
    for table in ("PROFILER_OVERHEAD", "CUPTI_ACTIVITY_KIND_OVERHEAD"):
        for frame in session.batches(table, ints("start end globalTid nameId overheadType")):
            named = session.text(frame["nameId"]).str.to_lowercase().str.replace_all("[^a-z0-9]+", "_")
            made = frame.select(
                **_span(session),
                overhead_kind=pl.coalesce(worded("overheadType", words), named.str.strip_chars("_"), pl.lit("unknown")),
                process_id=process_of("globalTid"),
                thread_id=thread_of("globalTid"),
            )
            rows.write("overheads", made, cuda=False)
