"""Tiny versions of what the paper's translation half is measured with: a trained model, and text.

Everything has the format of the public original: an archive with checkpoint, dictionaries and byte
pairs; sgml files of newstest and a table of MTNT where sacrebleu keeps them; the talks of IWSLT.
"""

import io
import random
import tarfile
from pathlib import Path

from fairseqmodels import SHAPES, SIZES, TRAINING, run

from headprune_lib.replication.data import Moses

WMT = "wmt14.en-fr.joined-dict.transformer.tar.bz2"
# sacrebleu's name -> source, reference, and number of pairs.
NEWS = {
    "wmt09": ("test/newstest2009-src.en.sgm", "test/newstest2009-src.fr.sgm", 8),
    "wmt10": ("test/newstest2010-src.en.sgm", "test/newstest2010-src.fr.sgm", 8),
    "wmt11": ("newstest2011-src.en.sgm", "newstest2011-src.fr.sgm", 8),
    "wmt12": ("test/newstest2012-src.en.sgm", "test/newstest2012-src.fr.sgm", 8),
    "wmt13": ("test/newstest2013-src.en.sgm", "test/newstest2013-src.fr.sgm", 14),
    "wmt14/full": (
        "test-full/newstest2014-fren-src.en.sgm", "test-full/newstest2014-fren-ref.fr.sgm", 12,
    ),
}  # fmt: skip
TALKS = ("TED.dev2010", "TEDX.dev2012", "TED.tst2010", "TED.tst2011", "TED.tst2012")
_WORDS = [first + second for first in "bdgk" for second in "aeou"]


def pairs(n: int, seed: int) -> list[tuple[str, str]]:
    """Sentences with capitals, hyphens and stops; each word's translation is its reversal."""
    generator, found = random.Random(seed), []
    for _ in range(n):
        pair = generator.choices(_WORDS, k=2)
        words = [pair[i % 2] for i in range(generator.randint(3, 7))]
        sides = []
        for side in (words, [word[::-1] for word in words]):
            joined = " ".join([*side[:-2], "-".join(side[-2:])])
            sides.append(f"{joined.replace(' ', ', ', 1).capitalize()}.")
        found.append((sides[0], sides[1]))
    return found


def write_news(folder: Path) -> None:
    """Write the test sets where sacrebleu looks for them before it fetches anything."""
    for seed, (name, (source, reference, n)) in enumerate(NEWS.items()):
        raw, rows = folder / name / "raw", pairs(n, 100 + seed)
        for path, column in ((raw / source, 0), (raw / reference, 1)):
            path.parent.mkdir(parents=True, exist_ok=True)
            lines = [f'<seg id="{i}">{row[column]}</seg>\n' for i, row in enumerate(rows, 1)]
            path.write_text(f'<srcset setid="x">\n<doc docid="d">\n{"".join(lines)}</doc>\n')
        tarball = f"{name.replace('/', '_')}.{'test-full' if 'full' in name else 'test'}.tgz"
        (raw / tarball).write_bytes(b"unpacked before")
    posts = folder / "mtnt1.1/test" / "raw"
    (posts / "MTNT/test").mkdir(parents=True)
    rows = [f"{i}\t{s}\t{t}\n" for i, (s, t) in enumerate(pairs(10, 200))]
    (posts / "MTNT/test/test.en-fr.tsv").write_text("".join(rows))
    (posts / "mtnt1.1_test.MTNT.1.1.tar.gz").write_bytes(b"unpacked before")


def talk_files(train: list, talks: dict[str, list]) -> dict[str, str]:
    """The files of IWSLT14, German and English: one sentence per line, and talks as XML."""
    files = {}
    for column, side in enumerate(("de", "en")):
        files[f"train.tags.de-en.{side}"] = "".join(f"{row[column]}\n" for row in train)
        for name, rows in talks.items():
            lines = [f'<seg id="{i}"> {row[column]} </seg>\n' for i, row in enumerate(rows, 1)]
            talk = f"<mteval>\n<doc>\n{''.join(lines)}</doc>\n</mteval>\n"
            files[f"IWSLT14.{name}.de-en.{side}.xml"] = talk
    return files


def write_talks(path: Path) -> None:
    """Write the archive of IWSLT14, with tags between its lines."""
    tags = ["<url>http://a.b</url>", "<keywords>x, y</keywords>", "<talkid>1</talkid>"]
    (german, english), *rows = pairs(260, 300)
    titles = (f"<title>{german}</title>", f"<title>{english}</title>")
    train = [*((tag, tag) for tag in tags), titles, *rows]
    files = talk_files(train, {name: pairs(4, 400 + seed) for seed, name in enumerate(TALKS)})
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w:gz") as opened:
        _add(opened, {f"de-en/{name}": text.encode() for name, text in files.items()})


def train_wmt(folder: Path) -> dict[str, bytes]:
    """Train a vaswani model with real fairseq; return the files of the public archive."""
    from subword_nmt.apply_bpe import BPE
    from subword_nmt.learn_bpe import learn_bpe

    text = {
        split: [
            [Moses(side, aggressive=True, straight=True).tokens(text) for text in texts]
            for side, texts in zip(("en", "fr"), zip(*pairs(n, seed), strict=True), strict=True)
        ]
        for seed, (split, n) in enumerate({"train": 500, "valid": 30}.items())
    }
    codes = io.StringIO()
    learn_bpe([*text["train"][0], *text["train"][1]], codes, 60)
    split = BPE(io.StringIO(codes.getvalue()))
    for name, sides in text.items():
        for side, lines in zip(("en", "fr"), sides, strict=True):
            made = "".join(f"{split.process_line(line)}\n" for line in lines)
            (folder / f"{name}.{side}").write_text(made)
    data = folder / "data"
    run(
        "fairseq_cli.preprocess", "-s", "en", "-t", "fr", "--joined-dictionary",
        "--trainpref", folder / "train", "--validpref", folder / "valid", "--destdir", data,
    )  # fmt: skip
    more = ["--max-update=150", "--dropout=0", "--save-dir", folder / "out"]
    run("fairseq_cli.train", data, *SHAPES["joined"], *SIZES, *TRAINING, *more)
    return {
        "model.pt": (folder / "out" / "checkpoint_last.pt").read_bytes(),
        "dict.en.txt": (data / "dict.en.txt").read_bytes(),
        "dict.fr.txt": (data / "dict.fr.txt").read_bytes(),
        "bpecodes": codes.getvalue().encode(),
    }


def pack_wmt(path: Path, files: dict[str, bytes]) -> None:
    """Pack files as in the public archive."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w:bz2") as opened:
        _add(opened, {f"wmt14.en-fr.joined-dict.transformer/{n}": c for n, c in files.items()})


def _add(opened: tarfile.TarFile, files: dict[str, bytes]) -> None:
    for name, content in files.items():
        member = tarfile.TarInfo(name)
        member.size = len(content)
        opened.addfile(member, io.BytesIO(content))
