"""DCGM's fields: number, name, the tag of `dcgmi dmon`, and the series they are here.

https://github.com/NVIDIA/DCGM/blob/master/dcgmlib/dcgm_fields.h and dcgmlib/src/dcgm_fields.cpp. Fields that are not
listed keep their own name, in lower case and without a unit.
"""

from __future__ import annotations

_ROWS = """
90 DEV_BAR1_TOTAL B1TTL bar1_memory_total mib
92 DEV_BAR1_USED B1USE bar1_memory_used mib
93 DEV_BAR1_FREE B1FRE bar1_memory_free mib
100 DEV_SM_CLOCK SMCLK sm_clock mhz
101 DEV_MEM_CLOCK MMCLK memory_clock mhz
102 DEV_VIDEO_CLOCK VICLK video_clock mhz
140 DEV_MEMORY_TEMP MMTMP gpu_memory_temperature c
150 DEV_GPU_TEMP TMPTR gpu_temperature c
155 DEV_POWER_USAGE POWER gpu_power w
156 DEV_TOTAL_ENERGY_CONSUMPTION TOTEC gpu_energy mj
157 DEV_POWER_USAGE_INSTANT POWINST gpu_power_instant w
160 DEV_POWER_MGMT_LIMIT PMLMT gpu_power_limit w
190 DEV_PSTATE PSTAT performance_state -
191 DEV_FAN_SPEED FANSP fan_speed %
200 DEV_PCIE_TX_THROUGHPUT TXTPT pcie_sent kb/s
201 DEV_PCIE_RX_THROUGHPUT RXTPT pcie_received kb/s
202 DEV_PCIE_REPLAY_COUNTER RPCTR pcie_replay_errors errs
203 DEV_GPU_UTIL GPUTL gpu_utilization %
204 DEV_MEM_COPY_UTIL MCUTL memory_utilization %
206 DEV_ENC_UTIL ECUTL encoder_utilization %
207 DEV_DEC_UTIL DCUTL decoder_utilization %
250 DEV_FB_TOTAL FBTTL device_memory_total mib
251 DEV_FB_FREE FBFRE device_memory_free mib
252 DEV_FB_USED FBUSD device_memory_used mib
253 DEV_FB_RESERVED FBRSV device_memory_reserved mib
1001 PROF_GR_ENGINE_ACTIVE GRACT graphics_engine_active ratio
1002 PROF_SM_ACTIVE SMACT sm_active ratio
1003 PROF_SM_OCCUPANCY SMOCC sm_occupancy ratio
1004 PROF_PIPE_TENSOR_ACTIVE TENSO tensor_pipe_active ratio
1005 PROF_DRAM_ACTIVE DRAMA dram_active ratio
1006 PROF_PIPE_FP64_ACTIVE FP64A fp64_pipe_active ratio
1007 PROF_PIPE_FP32_ACTIVE FP32A fp32_pipe_active ratio
1008 PROF_PIPE_FP16_ACTIVE FP16A fp16_pipe_active ratio
1009 PROF_PCIE_TX_BYTES PCITX pcie_sent b/s
1010 PROF_PCIE_RX_BYTES PCIRX pcie_received b/s
1011 PROF_NVLINK_TX_BYTES NVLTX nvlink_sent b/s
1012 PROF_NVLINK_RX_BYTES NVLRX nvlink_received b/s
"""

_SERIES: dict[str, tuple[str, str]] = {}
for _row in _ROWS.split("\n")[1:-1]:
    _number, _field, _tag, _name, _unit = _row.split()
    for _key in (_number, f"dcgm_fi_{_field.lower()}", _tag.lower()):
        _SERIES[_key] = (_name, "" if _unit == "-" else _unit)

_BLANKS = frozenset(str(float(base + n)) for base in (0x7FFFFFF0, 0x7FFFFFFFFFFFFFF0, 1 << 47) for n in range(5))


def dcgm_series(field: str) -> tuple[str, str]:
    """Name without unit, and unit, of a field by its number, name or tag."""
    key = field.strip().lower()
    if key in _SERIES:
        return _SERIES[key]
    if key.isdecimal():
        return (f"dcgm_field_{key}", "")
    return (key if key.startswith("dcgm_") or "_" in key else f"dcgm_{key}", "")


def is_blank(text: str) -> bool:
    """Whether `text` is one of the numbers by which DCGM says that it has none (DCGM_INT64_BLANK and alike)."""
    if len(text) < 10 or text[:1] not in "1249":
        return False
    try:
        return str(float(text)) in _BLANKS
    except ValueError:
        return False
