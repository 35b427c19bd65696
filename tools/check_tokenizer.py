#!/usr/bin/env python3
"""Compares the tokenizer with the tiktoken package, and makes the committed golden files of its tests.

    pip install tiktoken regex                                    (in a virtual environment)
    tools/check_tokenizer.py make                                 writes tests/reference/tokenizer/
    tools/check_tokenizer.py compare TEST_TEXT [--count 200000] [--seed 1] [--model tiktoken.model]
    tools/check_tokenizer.py classes                              compares the Unicode classes of all code points

`compare` makes fresh random strings and runs the program test_text on them (its test TokenizerGolden reads the folder named by
PERIGEE_TOKENIZER_GOLDEN). All text, that from which the small merge table is trained included, is generated here. The pattern
and the long-input guard are written from the description in src/text/splitter.h.
"""

import argparse
import base64
import collections
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

import regex
import tiktoken

ROOT = pathlib.Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "tests/reference/tokenizer"
MERGES = 2000
SLOTS = 256

UP = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]"
LOW = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]"
PRE = r"[^\r\n\p{L}\p{N}]?"
CONTRACTION = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
PATTERN = "|".join([
    r"\p{Han}+",
    PRE + UP + "*" + LOW + "+" + CONTRACTION,
    PRE + UP + "+" + LOW + "*" + CONTRACTION,
    r"\p{N}{1,3}",
    r" ?[^\s\p{L}\p{N}]+[\r\n]*",
    r"\s*[\r\n]+",
    r"\s+(?!\S)",
    r"\s+",
])

BLOCK = 400_000
RUN = 25_000

SPECIAL_NAMES = {  # slot: (name, the flag `special`)
    0: ("[BOS]", True), 1: ("[EOS]", True), 2: ("<|end_of_msg|>", True), 3: ("<|open|>", False), 4: ("<|close|>", False),
    5: ("<|sep|>", False), 9: ("[EOT]", True), 18: ("<|media_begin|>", True), 19: ("<|media_content|>", True),
    20: ("<|media_end|>", True), 21: ("<|media_pad|>", True), 65: ("<osagent_mode>", True), 254: ("[UNK]", True),
    255: ("[PAD]", True),
}

WORDS = """the of and to in is that for it as was with be by on not he his but at are this have from or had an they which one you
were her all she there would their we him been has when who will more no if out so said what up its about into than them can only
other new some could time these two may then do first any my now such like our over man me even most made after also did many before
must through back years where much your way well down should because each just those people how too little state good very make world
still own see men work long get here between both life being under never day same another know while last might us great old year off
come since against go came right used take three server request token cache memory layer page state weight model tensor stream error
value return function class public private static const void string vector import export default async await yield lambda""".split()
CODE = ["int main() {\n", "  return 0;\n}\n", "for (int i = 0; i < n; ++i) {\n", "    if x is None:\n        return\n", "def f(self, x):\n",
        "const auto& v = a[i];\n", "#include <vector>\n", "std::string_view", "->", "==", "!=", "();\n", "\t\t", "    ", "        ",
        "// ", "/* ", " */\n", "{\"key\": \"value\", \"n\": 12}\n", "https://example.org/a/b?c=d&e=f#g", "\\n", "0x1F", "1e-5", "&&", "||"]
HAN = "的一是不了人我在有他这为之大来以个中上们到说国和地也子时道出而要于就下得可你年生自会那后能对着事其里所去行过家十用发天如然作方成者多日都三小军二无同么经法当起与好看学进种将还分此心前面又定见只主没公从" \
    "日本語漢字東京大学電気會說學體臺灣"
SCRIPTS = {  # ranges of code points, the ends included
    "latin": [(0x41, 0x5A), (0x61, 0x7A)], "latin1": [(0xC0, 0x24F)], "greek": [(0x391, 0x3C9)], "cyrillic": [(0x410, 0x44F)],
    "armenian": [(0x531, 0x556), (0x561, 0x587)], "hebrew": [(0x5D0, 0x5EA)], "arabic": [(0x620, 0x65F)],
    "devanagari": [(0x900, 0x97F)], "thai": [(0xE01, 0xE3A), (0xE40, 0xE5B)], "georgian": [(0x10A0, 0x10FF)],
    "hangul": [(0xAC00, 0xAFFF)], "kana": [(0x3041, 0x30FF)], "titlecase": [(0x1C4, 0x1CC), (0x1F88, 0x1FAF)],
    "modifier": [(0x2B0, 0x2FF)], "marks": [(0x300, 0x36F), (0x20D0, 0x20F0), (0xFE00, 0xFE0F), (0xE0100, 0xE0110)],
    "han_edges": [(0x2E80, 0x2FD5), (0x3005, 0x3007), (0x3021, 0x3029), (0x3038, 0x303B), (0x16FE2, 0x16FF1), (0xF900, 0xFAD9),
                  (0x20000, 0x20100), (0x2EBF0, 0x2EC00)],
    "digits": [(0x30, 0x39)], "numbers": [(0xB2, 0xB3), (0xBC, 0xBE), (0x660, 0x669), (0x2160, 0x2188), (0x2460, 0x24FF), (0x3007, 0x3007),
                                          (0x3021, 0x3029), (0x1D7CE, 0x1D7FF)],
    "spaces": [(0x9, 0xD), (0x1C, 0x20), (0x85, 0x85), (0xA0, 0xA0), (0x1680, 0x1680), (0x2000, 0x200B), (0x2028, 0x202F), (0x3000, 0x3000)],
    "symbols": [(0x21, 0x2F), (0x3A, 0x40), (0x5B, 0x60), (0x7B, 0x7E)], "punctuation": [(0x2010, 0x2027), (0x3001, 0x3004), (0xFF01, 0xFF0F)],
    "emoji": [(0x1F300, 0x1F64F), (0x1F900, 0x1F9FF), (0x200D, 0x200D), (0x1F1E6, 0x1F1FF)],
    "private": [(0xE000, 0xE0FF), (0xF0000, 0xF0010), (0x10FFF0, 0x10FFFF)],
    "edges": [(0x0, 0x8), (0x7F, 0x84), (0xFFF0, 0xFFFF), (0xFDD0, 0xFDD2), (0xD7FF, 0xD7FF), (0xE000, 0xE000), (0x7FF, 0x800), (0x10000, 0x10010)],
    "any": [(0x0, 0xD7FF), (0xE000, 0x10FFFF)],
}
SNIPPETS = ["'s", "'S", "'t", "'re", "'RE", "'Ve", "'m", "'ll", "'lL", "'d", "'\u017f", "'", "\u2019s", "'l", "'r", "'v", "'e", "'x",
            "\n", "\r", "\r\n", "\n\n", " \n", "\n ", " ", "  ", "   ", "\t", " \t ", "\u3000", "/", "//", "/\n", "!", "!!\n", "...", "🎉\n", "👩‍👩‍👧",
            "e\u0301", "\u0301", "\u0301\u0301", "A\u0301B", "A", "B", "a", "\u01c5", "\u02b0", "ª", "日", "世界", "\u3007", "1\u3007", "1", "12", "1234",
            "٣", "½", "Ⅷ", "\x1c", "\x1f", "\x85", "\xa0", "\u200b", "\ufeff", "é", "ß", "İ", "ı", "K"]


def pick(rng, script):
    """One character of a script."""
    first, last = rng.choice(SCRIPTS[script])
    code = rng.randint(first, last)
    return chr(code) if not 0xD800 <= code < 0xE000 else "\ufffd"


def sentence(rng):
    """A few words with the marks of prose."""
    words = [rng.choice(WORDS) for _ in range(rng.randint(1, 9))]
    words[0] = rng.choice([str.capitalize, str.upper, str.lower])(words[0])
    return " ".join(words) + rng.choice([". ", ", ", "\n", "? ", "! ", "'s ", "'t ", ": ", ""])


def han_text(rng):
    return "".join(rng.choice(HAN) for _ in range(rng.randint(1, 12))) + rng.choice(["，", "。", "", "\n", "、"])


def snippets(rng):
    return "".join(rng.choice(SNIPPETS) for _ in range(rng.randint(1, 9)))


def script_run(rng):
    script = rng.choice(list(SCRIPTS))
    return "".join(pick(rng, script) for _ in range(rng.randint(1, 6)))


def letters_mix(rng):
    """Upper, lower, caseless letters and marks in any order: what makes alternatives 2 and 3 give characters back."""
    return "".join(pick(rng, rng.choice(["latin", "latin", "marks", "kana", "modifier", "titlecase", "han_edges"])) for _ in range(rng.randint(1, 8)))


def random_text(rng):
    makers = [sentence, han_text, snippets, snippets, script_run, script_run, letters_mix, lambda r: r.choice(CODE), lambda r: pick(r, "any")]
    return "".join(rng.choice(makers)(rng) for _ in range(rng.choice([1, 1, 2, 2, 3, 4])))


def training_text(rng):
    """About 600 kB of mixed text."""
    parts = []
    for _ in range(9000):
        parts.append(rng.choice([sentence, sentence, sentence, han_text, lambda r: r.choice(CODE), script_run])(rng))
    return "".join(parts)


def train(text, merges):
    """Plain BPE training: the byte strings in rank order, bytes first in GPT-2's order."""
    first = [*range(33, 127), *range(161, 173), *range(174, 256)]
    tokens = [bytes([b]) for b in first + [b for b in range(256) if b not in first]]
    known = set(tokens)
    counts = collections.Counter(match.group().encode() for match in regex.compile(PATTERN, regex.V1).finditer(text))
    words = [([bytes([b]) for b in piece], count) for piece, count in counts.items()]
    while len(tokens) < 256 + merges:
        pairs = collections.Counter()
        for parts, count in words:
            for pair in zip(parts, parts[1:]):
                pairs[pair] += count
        left, right = max(pairs, key=lambda pair: (pairs[pair], pair))
        joined = left + right
        if joined not in known:
            known.add(joined)
            tokens.append(joined)
        for parts, _ in words:
            i = 0
            while i + 1 < len(parts):
                if parts[i] == left and parts[i + 1] == right:
                    parts[i:i + 2] = [joined]
                i += 1
    return tokens


class Reference:
    """The family's tokenizer as the tiktoken package computes it."""

    def __init__(self, tokens):
        self.base = len(tokens)
        names = [f"<|reserved_token_{self.base + i}|>" for i in range(SLOTS)]
        for slot, (name, _) in SPECIAL_NAMES.items():
            names[slot] = name
        self.encoding = tiktoken.Encoding(
            "k3", pat_str=PATTERN, mergeable_ranks={token: rank for rank, token in enumerate(tokens)},
            special_tokens={name: self.base + i for i, name in enumerate(names)})

    @staticmethod
    def cut(text):
        """The parts of a block in which no run of space or non-space is longer than RUN."""
        start, length, kind = 0, 0, None
        for i, character in enumerate(text):
            if character.isspace() != kind:
                kind, length = character.isspace(), 0
            length += 1
            if length > RUN:
                yield text[start:i]
                start, length = i, 1
        yield text[start:]

    def encode(self, text, as_ids):
        ids = []
        for block in range(0, len(text), BLOCK):
            for part in self.cut(text[block:block + BLOCK]):
                if as_ids:
                    ids += self.encoding.encode(part, allowed_special="all")
                else:
                    ids += self.encoding.encode(part, disallowed_special=())
        return ids


def config(base):
    added = {str(base + slot): {"content": name, "special": special} for slot, (name, special) in SPECIAL_NAMES.items()}
    return {"added_tokens_decoder": added, "bos_token": "[BOS]", "eos_token": {"content": "[EOS]"}, "pad_token": "[PAD]", "unk_token": "[UNK]"}


def special_text(rng, base):
    names = [name for name, _ in SPECIAL_NAMES.values()] + [f"<|reserved_token_{base + 7}|>", "<|open|", "<|reserved_token_7|>", "[", "<|", "|>"]
    parts = []
    for _ in range(rng.randint(1, 4)):
        parts += [rng.choice(names), rng.choice(["", " ", "  ", "a", "\n", " b", snippets(rng)])]
    return "".join(parts)


def write_cases(path, reference, count, seed):
    """One JSON array a line: the text, its ids, and 1 if special names are to become ids, else 0."""
    rng = random.Random(seed)
    seen = set()
    with path.open("w", encoding="utf-8") as out:
        while len(seen) < count:
            as_ids = rng.random() < 0.08
            text = special_text(rng, reference.base) if rng.random() < 0.12 else random_text(rng)
            if (text, as_ids) in seen:
                continue
            seen.add((text, as_ids))
            line = [text, reference.encode(text, as_ids), int(as_ids)]
            out.write(json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n")


def long_cases():
    """Texts as lists of (part, repetitions), all beyond or at a limit of the long-input guard."""
    yield [["a", RUN]]
    yield [["a", RUN + 1]]
    yield [[" ", RUN]]
    yield [[" ", RUN + 1]]
    yield [["x", 1], [" ", 3 * RUN + 5], ["the", RUN]]
    yield [["\u00e9", RUN - 1], ["the", 2], [" ", 1], ["\u00e9", RUN + 3]]
    yield [["世", 2 * RUN + 1], ["\n", RUN + 2], ["界", 1]]
    yield [["the ", BLOCK // 4], [" the", 3]]
    yield [["the ", BLOCK // 4 - 1], ["th", 1], ["eee", 2], [" of", 5]]
    yield [["🎉", BLOCK + 1]]
    yield [["\x1c", RUN + 1], ["a", 1]]
    yield [["\u00a0", RUN], [" ", 1], ["b", 2]]
    yield [["ab1!", RUN // 4], ["<|open|>", 1], ["c", 1]]
    yield [["a", RUN - 3], ["<|open|>", 2], ["c", 1]]
    yield [["!", RUN + 1], ["\n", 2]]
    yield [["1", RUN + 1]]
    yield [["word, ", BLOCK // 6 + 100]]


def periodic(ids):
    """The ids as [[ids...], repetitions] pieces, found greedily; long texts of few repeated words become short."""
    pieces, i = [], 0
    while i < len(ids):
        best = (1, 1)
        for period in range(1, 9):
            repeats = 1
            while ids[i + repeats * period:i + (repeats + 1) * period] == ids[i:i + period]:
                repeats += 1
            if repeats > 1 and repeats * period > best[0] * best[1]:
                best = (period, repeats)
        period, repeats = best
        pieces.append([ids[i:i + period], repeats])
        i += period * repeats
    return pieces


def write_long_cases(path, reference):
    """One JSON array a line: the parts of the text, its ids as [[ids...], repetitions] pieces, and the flag of write_cases."""
    with path.open("w", encoding="utf-8") as out:
        for parts in long_cases():
            text = "".join(part * count for part, count in parts)
            for as_ids in (False, True) if "<|" in text else (False,):
                out.write(json.dumps([parts, periodic(reference.encode(text, as_ids)), int(as_ids)], ensure_ascii=False, separators=(",", ":")) + "\n")


def write_folder(folder, tokens, count, seed):
    folder.mkdir(parents=True, exist_ok=True)
    lines = [f"{base64.b64encode(token).decode()} {rank}\n" for rank, token in enumerate(tokens)]
    (folder / "tiktoken.model").write_text("".join(lines))
    (folder / "tokenizer_config.json").write_text(json.dumps(config(len(tokens)), indent=1) + "\n")
    reference = Reference(tokens)
    write_cases(folder / "cases.jsonl", reference, count, seed)
    write_long_cases(folder / "long_cases.jsonl", reference)


def read_model(path):
    entries = [line.split() for line in path.read_text().splitlines()]
    return [base64.b64decode(token) for token, rank in sorted(entries, key=lambda entry: int(entry[1]))]


def compare(arguments):
    tokens = read_model(arguments.model)
    with tempfile.TemporaryDirectory() as folder:
        write_folder(pathlib.Path(folder), tokens, arguments.count, arguments.seed)
        environment = dict(os.environ, PERIGEE_TOKENIZER_GOLDEN=folder)
        return subprocess.run([arguments.program, "--gtest_filter=TokenizerGolden.*"], env=environment, check=False).returncode


def compare_classes():
    """Every code point against the classes of tiktoken's regular expressions and Python's isspace."""
    sys.path.insert(0, str(ROOT / "tools"))
    import make_unicode_tables as tables
    classes = tables.classify(pathlib.Path("/usr/share/unicode"))
    patterns = {tables.HAN: r"\p{Han}", tables.UPPER: UP, tables.LOWER: LOW, tables.LETTER: r"\p{L}", tables.NUMBER: r"\p{N}",
                tables.SPACE: r"\s", tables.NEWLINE: r"[\r\n]"}
    wrong = 0
    for bit, pattern in patterns.items():
        matcher = tiktoken.Encoding("class", pat_str=pattern, mergeable_ranks={bytes([i]): i for i in range(256)}, special_tokens={})
        for code in [*range(0xD800), *range(0xE000, tables.CODE_POINTS)]:
            wrong += bool(matcher.encode_ordinary(chr(code))) != bool(classes[code] & bit)
    wrong += sum(chr(code).isspace() != bool(classes[code] & tables.PYTHON_SPACE) for code in range(tables.CODE_POINTS))
    print(f"{wrong} differences in the classes of {tables.CODE_POINTS} code points")
    return 1 if wrong else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("make")
    commands.add_parser("classes")
    check = commands.add_parser("compare")
    check.add_argument("program")
    check.add_argument("--count", type=int, default=200_000)
    check.add_argument("--seed", type=int, default=1)
    check.add_argument("--model", type=pathlib.Path, default=GOLDEN / "tiktoken.model")
    arguments = parser.parse_args()
    if arguments.command == "compare":
        sys.exit(compare(arguments))
    if arguments.command == "classes":
        sys.exit(compare_classes())
    write_folder(GOLDEN, train(training_text(random.Random(2)), MERGES), 12_000, 3)


if __name__ == "__main__":
    main()
