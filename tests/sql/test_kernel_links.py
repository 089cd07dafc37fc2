"""Profiled launches and the kernels of a trace: one case a screen, and every small case against a direct search."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from pipeline.database import Database
from pipeline.kernel_names import base_name, name_kernels
from tests.sql.support import assert_rows, result, run, tables


def linked(tmp_path: Path, **rows: object) -> Database:
    database = tables(tmp_path, **rows)  # type: ignore[arg-type]
    name_kernels(database)
    run(database, "correlate", "kernel_links_made")
    return database


def test_a_whole_run_in_another_process(tmp_path: Path) -> None:
    """Names differ in form, the order of launch is that of the correlation ids, not of the start."""
    database = linked(
        tmp_path,
        kernel_metrics="""
        file_id launch_index process_id name                            grid  block metric value
        5       0            77         void_|_ns::add<int>(int_|_*)    4,1,1 8,1,1 a      1
        5       0            77         void_|_ns::add<int>(int_|_*)    4,1,1 8,1,1 b      2
        5       1            77         mul                             4,1,1 8,1,1 a      1
        5       2            77         void_|_ns::add<int>(int_|_*)    4,1,1 8,1,1 a      1
        """,
        gpu_ops="""
        file_id event_index op     name              grid  block start_ns correlation_id
        1       10          kernel _ZN2ns3addIiEEvPi 4,1,1 8,1,1 300      1
        1       11          kernel _Z3mulv           4,1,1 8,1,1 100      2
        1       12          memcpy -                 -     -     150      3
        1       13          kernel other             4,1,1 8,1,1 160      4
        1       14          kernel _ZN2ns3addIiEEvPi 4,1,1 8,1,1 200      5
        """,
    )
    assert_rows(
        database,
        "kernel_links_made",
        """
        file_id launch_index gpu_op_file_id gpu_op_event_index link_method
        5       0            1              10                 sequence
        5       1            1              11                 sequence
        5       2            1              14                 sequence
        """,
    )


def test_a_window_of_launches(tmp_path: Path) -> None:
    """Three launches profiled of six, in one place only; a shape that tells two kernels of a name apart."""
    kernels = """
        file_id event_index op     name grid   block start_ns
        1       0           kernel a    1,1,1  8,1,1 10
        1       1           kernel b    1,1,1  8,1,1 20
        1       2           kernel a    2,1,1  8,1,1 30
        1       3           kernel b    1,1,1  8,1,1 40
        1       4           kernel a    1,1,1  8,1,1 50
        1       5           kernel b    1,1,1  8,1,1 60
        """
    database = linked(
        tmp_path,
        kernel_metrics="""
        file_id launch_index name grid   block metric
        2       0            b    1,1,1  8,1,1 m
        2       1            a    2,1,1  8,1,1 m
        2       2            b    1,1,1  8,1,1 m
        3       0            b    1,1,1  8,1,1 m
        4       7            a    2,1,1  -     m
        """,
        gpu_ops=kernels,
    )
    assert_rows(
        database,
        "kernel_links_made",
        """
        file_id launch_index gpu_op_event_index link_method
        2       0            1                  sequence
        2       1            2                  sequence
        2       2            3                  sequence
        4       7            2                  sequence
        """,
    )


def test_two_ranks_that_look_alike_are_told_apart_by_the_process_only(tmp_path: Path) -> None:
    kernels = """
        file_id event_index process_id op     name grid  start_ns
        1       0           41         kernel a    1,1,1 10
        2       0           42         kernel a    1,1,1 10
        3       9           41         kernel a    1,1,1 10
        """
    metrics = """
        file_id launch_index process_id name grid  metric
        8       0            42         a    1,1,1 m
        9       0            99         a    1,1,1 m
        """
    database = linked(tmp_path, kernel_metrics=metrics, gpu_ops=kernels)
    assert_rows(
        database,
        "kernel_links_made",
        """
        file_id launch_index gpu_op_file_id gpu_op_event_index
        8       0            2              0
        """,
    )


def test_counts_that_agree_kernel_by_kernel(tmp_path: Path) -> None:
    """The order of two streams differs between the runs: what runs as often in both is linked turn by turn."""
    database = linked(
        tmp_path,
        kernel_metrics="""
        file_id launch_index name grid  metric
        5       0            a    1,1,1 m
        5       1            b    1,1,1 m
        5       2            a    1,1,1 m
        5       3            c    1,1,1 m
        """,
        gpu_ops="""
        file_id event_index op     name grid  start_ns
        1       0           kernel a    1,1,1 10
        1       1           kernel a    1,1,1 20
        1       2           kernel b    1,1,1 30
        1       3           kernel c    1,1,1 40
        1       4           kernel c    1,1,1 50
        """,
    )
    assert_rows(
        database,
        "kernel_links_made",
        """
        launch_index gpu_op_event_index link_method
        0            0                  name_grid_order
        1            2                  name_grid_order
        2            1                  name_grid_order
        """,
    )


def test_a_long_window_of_a_trace_that_repeats(tmp_path: Path) -> None:
    """Each kernel runs hundreds of times and the first 40 launches fit in many places, all of them in one."""
    order = "abc" * 300 + "acb" + "abc" * 300
    begin = 900 - 60
    profile = order[begin : begin + 130]
    assert sum(order.startswith(profile[:40], n) for n in range(len(order))) > 500
    database = linked(
        tmp_path,
        kernel_metrics=[{"file_id": 3, "launch_index": n, "name": k, "metric": "m"} for n, k in enumerate(profile)],
        gpu_ops=[{"op": "kernel", "name": k, "start_ns": n + 1, "event_index": n} for n, k in enumerate(order)],
    )
    rows = result(database, "kernel_links_made", ("launch_index", "gpu_op_event_index", "link_method"))
    assert rows == [(n, begin + n, "sequence") for n in range(len(profile))]


def test_launches_without_a_link_are_counted(tmp_path: Path) -> None:
    database = tables(
        tmp_path,
        kernel_metrics="file_id launch_index metric\n5 0 m\n5 0 n\n5 1 m",
        kernel_links="file_id launch_index gpu_op_file_id gpu_op_event_index link_method\n5 1 0 0 sequence",
        gpu_ops="op name\nkernel a",
    )
    run(database, "lifetimes", "tensor_lives", "segment_lives", "host_files", "diagnostics_made")
    assert_rows(
        database,
        "diagnostics_made",
        """
        stage     file_id name                      severity occurrence_count
        lifetimes -1      profiled_launches_unlinked info     1
        """,
    )


Shape = tuple[str, str]


def searched(profile: list[Shape], trace: list[Shape]) -> list[tuple[int, int, str]]:
    """The rule, written as a search: launch, kernel, method."""
    kept = [(place, shape) for place, shape in enumerate(trace) if shape in profile]
    shapes = [shape for _, shape in kept]
    places = [n for n in range(len(kept) - len(profile) + 1) if shapes[n : n + len(profile)] == profile]
    if len(places) == 1:
        return [(launch, kept[places[0] + launch][0], "sequence") for launch in range(len(profile))]
    found = []
    for shape in set(profile):
        launches = [launch for launch, known in enumerate(profile) if known == shape]
        runs = [place for place, known in enumerate(trace) if known == shape]
        if len(launches) == len(runs):
            found += [(launch, run, "name_grid_order") for launch, run in zip(launches, runs, strict=True)]
    return sorted(found)


def test_the_same_as_a_direct_search(tmp_path: Path) -> None:
    """400 small profiles and traces, each pair in a process of its own."""
    chance = random.Random(11)
    cases = []
    for _ in range(400):
        shapes = [(name, grid) for name in "ab" for grid in ("1,1,1", "2,1,1")][: chance.randint(1, 4)]
        trace = [chance.choice(shapes) for _ in range(chance.randint(1, 9))]
        begin = chance.randrange(len(trace))
        cut = trace[begin : begin + chance.randint(1, 5)]
        cases.append((chance.choice((cut, [chance.choice(shapes) for _ in range(chance.randint(1, 5))])), trace))
    database = linked(
        tmp_path,
        kernel_metrics=[
            {"file_id": 1000 + pid, "process_id": pid, "launch_index": n, "name": name, "grid": grid, "metric": "m"}
            for pid, (profile, _) in enumerate(cases)
            for n, (name, grid) in enumerate(profile)
        ],
        gpu_ops=[
            {
                "file_id": pid,
                "process_id": pid,
                "event_index": n,
                "start_ns": n + 1,
                "op": "kernel",
                "name": f"_Z1{name}v",
                "grid": grid,
            }
            for pid, (_, trace) in enumerate(cases)
            for n, (name, grid) in enumerate(trace)
        ],
    )
    columns = ("file_id", "launch_index", "gpu_op_file_id", "gpu_op_event_index", "link_method")
    expected = [
        (1000 + pid, launch, pid, run, method)
        for pid, (profile, trace) in enumerate(cases)
        for launch, run, method in searched(profile, trace)
    ]
    assert {row[4] for row in expected} == {"sequence", "name_grid_order"}
    assert len(expected) < sum(len(profile) for profile, _ in cases)
    assert result(database, "kernel_links_made", columns) == sorted(expected)


@pytest.mark.parametrize(
    ("name", "base"),
    [
        ("foo", "foo"),
        ("void foo<int>(int *)", "foo"),
        ("foo(int, char const*)", "foo"),
        ("void (anonymous namespace)::foo<(int)4, a::B<c>>(a::B<d> const&)", "foo"),
        ("void at::<unnamed>::foo<float, [lambda() (instance 1)]::operator ()() const>(T2 *)", "foo"),
        ("copy_blocked[v1,cw51](Array<long long, 1, C>)", "copy_blocked"),
        ("nvjet_sm90_tst_128x64", "nvjet_sm90_tst_128x64"),
        ("_Z3fooPi", "foo"),
        ("_ZL3fooPi", "foo"),
        ("_ZN12_GLOBAL__N_13fooIiEEvPT_", "foo"),
        ("_ZN2at6native18elementwise_kernelILi128ELi2EZNS0_8nocastINS0_1FEEvRKT_EUliE_EEviT1_", "elementwise_kernel"),
        ("_ZN6cudapy4main12copy_blockedB2v1B3abcE5ArrayIxE", "copy_blocked"),
        ("_Z", "_Z"),
        ("_ZN9999x", "_ZN9999x"),
        ("_ZN3fo", "_ZN3fo"),
        ("(((<<<", "(((<<<"),
        ("", ""),
    ],
)
def test_base_names(name: str, base: str) -> None:
    assert base_name(name) == base
