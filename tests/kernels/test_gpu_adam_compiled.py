"""Vectorised loads of the Adam kernel, compiled for a GPU without needing one."""

import json
import os
import subprocess
import sys

import pytest

# One part that may be read in wide words and is, one whose rows begin anywhere.
COMPILE = """
import json, triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from unweave.kernels.gpu_adam import _adam_kernel as kernel

constants = {
    "PARTS": 2, "PLACES": (0, 12288), "SIZES": (12288, 4), "STARTS": (0, 12, 13),
    "WIDE": (1, 0), "COPY": True, "LIMITED": LIMITED, "WITHIN": (1, 0),
    "BLOCK": 1024, "TOO_LARGE": 1e18,
}
types = {
    "parameters": "*fp32", "first": "*fp32", "second": "*fp32", "gradients": ("*fp32", "*fp32"),
    "working": "*bf16", "rates": "*fp32", "limits": "*fp32", "alive": "*i1", "finite": "*i1",
    "stride": "i32", "gradient_strides": ("i32", "i32"), **dict.fromkeys(constants, "constexpr"),
}
place = kernel.arg_names.index
aligned = [["tt.divisibility", 16]]
single = [name for name, kind in types.items() if kind != "constexpr" and type(kind) is str]
attributes = {(place(name),): aligned for name in single}
attributes |= {(place(name), 0): aligned for name in ("gradients", "gradient_strides")}
known = {(place(name),): value for name, value in constants.items()}
source = ASTSource(kernel, types, known, attributes)
print(json.dumps(triton.compile(source, target=GPUTarget("cuda", 90, 32)).asm["ptx"]))
"""


@pytest.fixture(scope="module", params=[False, True], ids=["plain", "limited"])
def reads(request):
    """Reads from memory in the order of the program, with and without decay and clipping."""
    plain = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", COMPILE.replace("LIMITED,", f"{request.param},")],
        capture_output=True,
        text=True,
        env=plain,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = json.loads(done.stdout).splitlines()
    return [line.strip() for line in lines if "ld.global" in line]


def test_aligned_blocks_use_vectorised_loads(reads):
    # Eight numbers per thread: of the gradient, the parameter and both moments.
    wide = [line for line in reads if line.startswith("ld.global.v4.b32")]
    assert len(wide) == 4 * 2


def test_other_parts_are_read_number_by_number(reads):
    # Parameters start at a multiple of 4; the compiler must not assume this of gradients.
    masked = [line for line in reads if line.startswith("@")]
    assert sum("ld.global.b32" in line for line in masked) == 8
    assert sum("ld.global.v4.b32" in line for line in masked) == 3 * 2
