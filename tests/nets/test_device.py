"""Choice of the precision by a measurement."""

from pathlib import Path

import torch

from unweave.nets.device import MIN_SPEED_UP, bf16_speed_up, faster_precision

BF16_INSTRUCTIONS = {"avx512_bf16", "amx_bf16", "bf16"}


def test_bf16_is_chosen_on_processors_with_instructions_for_it():
    words = set(Path("/proc/cpuinfo").read_text().split())
    expected = "bf16" if words & BF16_INSTRUCTIONS else "float32"
    assert faster_precision(torch.device("cpu")) == expected
    assert (bf16_speed_up() >= MIN_SPEED_UP) == (expected == "bf16")


def test_the_measurement_is_made_once_and_keeps_the_number_of_threads():
    before = torch.get_num_threads()
    assert bf16_speed_up() == bf16_speed_up() > 0
    assert torch.get_num_threads() == before


def test_a_gpu_uses_bf16():
    assert faster_precision(torch.device("cuda")) == "bf16"
