"""Reads and writes safetensors files with nothing but numpy.

Used by numpy_model.py (reading a checkpoint) and make_goldens.py (writing one). A file is an 8-byte little-endian header
length, a JSON header (name -> dtype, shape, data_offsets) and the raw bytes. BF16, which numpy lacks, is widened to
float64 on reading and rounded to nearest even on writing.
"""

import json
import struct
from pathlib import Path

import numpy as np

PLAIN = {"F64": "<f8", "F32": "<f4", "I32": "<i4", "U8": "|u1"}


def bf16_bits(values):
    """Upper half of the float32 pattern, rounded to nearest even."""
    bits = np.ascontiguousarray(values, "<f4").view("<u4").astype(np.uint64)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype("<u2")


def from_bf16_bits(bits):
    return (np.asarray(bits, "<u2").astype("<u4") << 16).view("<f4").astype(np.float64)


def read_tensors(path):
    """name -> array: floats as float64, integers as they are."""
    blob = Path(path).read_bytes()
    (header_bytes,) = struct.unpack_from("<Q", blob)
    tensors = {}
    for name, entry in json.loads(blob[8 : 8 + header_bytes]).items():
        if name == "__metadata__":
            continue
        begin, end = (8 + header_bytes + offset for offset in entry["data_offsets"])
        if entry["dtype"] == "BF16":
            flat = from_bf16_bits(np.frombuffer(blob[begin:end], "<u2"))
        else:
            flat = np.frombuffer(blob[begin:end], PLAIN[entry["dtype"]])
        tensors[name] = (flat.astype(np.float64) if flat.dtype.kind == "f" else flat).reshape(entry["shape"])
    return tensors


def read_folder(folder):
    """All tensors of a checkpoint folder, whatever the number of shards."""
    tensors = {}
    for path in sorted(Path(folder).glob("*.safetensors")):
        tensors.update(read_tensors(path))
    return tensors


def write_tensors(path, tensors):
    """tensors: name -> (dtype name, array)."""
    header, payload, offset = {}, [], 0
    for name, (dtype, array) in tensors.items():
        array = np.asarray(array)
        data = (bf16_bits(array) if dtype == "BF16" else array.astype(PLAIN[dtype])).tobytes()
        header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [offset, offset + len(data)]}
        payload.append(data)
        offset += len(data)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    Path(path).write_bytes(struct.pack("<Q", len(text)) + text + b"".join(payload))
