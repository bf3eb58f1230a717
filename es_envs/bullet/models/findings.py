"""Findings about a robot's model: their kinds, and what to do about each."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

Severity = Literal["error", "warning", "note"]


@dataclass(frozen=True)
class Kind:
    """A kind of finding.

    Args:
        severity: "error" (the model cannot be loaded), "warning" (it loads, and is not what its file seems to say) or
            "note" (nothing to worry about; a copy that is given to Bullet differs from the file).
        meaning: what Bullet does with such a file.
        remedy: what you can do; empty for most notes.
    """

    severity: Severity
    meaning: str
    remedy: str = ""


def _error(meaning: str, remedy: str) -> Kind:
    return Kind("error", meaning, remedy)


def _warning(meaning: str, remedy: str) -> Kind:
    return Kind("warning", meaning, remedy)


def _note(meaning: str) -> Kind:
    return Kind("note", meaning)


KINDS = {
    "unreadable": _error("the file cannot be read as a robot", "give a URDF, xacro, MJCF or SDF file"),
    "not-xml": _error("the file is not well-formed XML", "mend the line that is named"),
    "entities": _error("a document that defines entities is refused: they can grow without bound",
                       "write their values in their places, and remove the <!DOCTYPE>"),
    "too-large": _error("the document is larger than any robot's", "reduce it; meshes belong in files of their own"),
    "xacro": _error("the xacro file cannot be expanded", "install the package xacro, or mend what the message names"),
    "no-links": _error("a robot without links cannot be loaded", "add a <link>"),
    "no-name": _error("Bullet finds links and joints by name", "name it"),
    "same-name": _error("two links or joints of one name end the process, or one of them is lost", "rename one"),
    "unknown-link": _error("a joint connects links that the file does not have", "mend its <parent> or <child>"),
    "unknown-joint-type": _error("Bullet does not know this type of joint",
                                 "use revolute, continuous, prismatic or fixed; a ball joint is three revolute ones"),
    "no-root": _error("links that hang on each other in a circle have no root", "open the loop"),
    "several-roots": _error("a second link without a parent ends the process", "connect it by a fixed joint"),
    "closed-loop": _error("Bullet takes trees only, and a link with two parents ends the process",
                          "remove a joint, and close the loop by pybullet.createConstraint after loading"),
    "no-limits": _error("Bullet rejects a revolute or prismatic joint without <limit>",
                        'add <limit lower="" upper="" effort="" velocity=""/>, or make it continuous'),
    "no-mass": _error("Bullet rejects an <inertial> without a mass", 'add <mass value=""/> [kg], or remove <inertial>'),
    "bad-number": _warning("Bullet may take this for 0, or spread NaN through the world", "write finite numbers"),
    "bad-geometry": _error("Bullet rejects a collision shape that it does not know",
                           "use box, sphere, cylinder, capsule or mesh"),
    "collision-mesh": _error("Bullet rejects a model whose collision mesh it cannot read",
                             "put the file there, name its package (packages={name: folder}), or convert it to .obj"),
    "include": _error("what the file includes is not there", "put the file there"),
    "root-without-inertia": _warning("Bullet gives the root a mass of 1 kg and lets it fall",
                                     "add <inertial>, name the root 'world', or load it with fixed=True"),
    "massless-root": _warning("Bullet fastens a root of mass 0: the robot hangs in the air",
                              "give it a mass, unless it shall be fastened"),
    "massless-link": _warning("Bullet fastens no link but the root; this one has no mass and no sensible motion",
                              "give it a small mass and inertia"),
    "many-joints": _warning("Bullet reads the states of 127 joints at most, fixed ones included",
                            "load it with flags=pybullet.URDF_MERGE_FIXED_LINKS"),
    "no-joints": _warning("no joint of the robot moves, so that a policy has nothing to act on", "add a joint"),
    "no-effort": _warning("an effort limit of 0 allows no force, where a controller takes it from the model",
                          "write the motor's limit [N m or N]"),
    "absurd-effort": _warning("such an effort limit limits nothing", "write the motor's limit [N m or N]"),
    "no-velocity": _warning("a velocity limit of 0 allows no motion, where a controller takes it from the model",
                            "write the motor's limit [rad/s or m/s]"),
    "absurd-velocity": _warning("such a velocity limit limits nothing", "write the motor's limit [rad/s or m/s]"),
    "reversed-limits": _warning("where lower is not below upper, Bullet takes the joint for unlimited",
                                "exchange or mend the limits"),
    "continuous": _warning("Bullet tells 0 and -1 as limits of a continuous joint", "do not scale actions by them"),
    "mimic": _warning("Bullet ignores <mimic>: the joint moves by itself",
                      "command it together with the joint it mimics, or use pybullet.JOINT_GEAR"),
    "unsupported-joint": _warning("Bullet replaces such a joint by a fixed or an uncontrolled one",
                                  "replace it by revolute or prismatic joints"),
    "impossible-inertia": _warning("no body has such an inertia: a principal moment is above the sum of the others, "
                                   "or not positive", "compute it anew; Bullet's own is used by default"),
    "tiny-inertia": _warning("so small an inertia makes a simulation unstable",
                             "compute it anew (units are kg m²), or let Bullet compute it, which is the default"),
    "mesh-size": _warning("the mesh is so large that it seems to be in millimetres",
                          'add scale="0.001 0.001 0.001" to <mesh>'),
    "mesh-y-up": _warning("the mesh says that y points up; programs differ in whether they turn it",
                          "look at it; export it with z up"),
    "mjcf-unsupported": _warning("Bullet's reader of MJCF ignores this", "do without it, or do it in code"),
    "mjcf-fixed-base": _warning("MuJoCo fastens a body without a joint to the world; Bullet lets it fall",
                                "fasten it with pybullet.createConstraint"),
    "sdf-unsupported": _warning("Bullet's reader of SDF ignores this", "do without it, or do it in code"),
    "left-out-visual": _note("a visual shape that Bullet cannot read is left out"),
    "converted-visual": _note("a visual mesh of a format that Bullet does not read is converted"),
    "mesh-elsewhere": _note("the mesh was found elsewhere than its path says"),
    "absolute-mesh": _note("only this machine has the mesh at that path"),
    "comment-in-tag": _note("a comment inside a tag is removed"),
    "long-line": _note("Bullet cuts lines at about a thousand characters: they are broken into shorter ones"),
    "text-before-declaration": _note("text before <?xml?> is removed"),
    "nameless-robot": _note("Bullet requires a name of <robot>: it gets one"),
    "namespaces": _note("prefixes of names that are declared nowhere are kept as a part of the names"),
    "no-inertia": _note("Bullet requires <inertia>: that of a ball of 0.1 m is added; Bullet's own counts by default"),
    "rewritten-mjcf": _note("defaults of MuJoCo that Bullet does not know are written out"),
    "rewritten-sdf": _note("a joint of an SDF file without limits gets those of an unlimited one"),
}  # fmt: skip
"""All kinds of findings by name."""


class Place(Protocol):
    """A place in a file: an element of the document, say."""

    @property
    def file(self) -> Path:
        """The file."""

    @property
    def line(self) -> int:
        """The line, from 1."""


@dataclass(frozen=True)
class Finding:
    """A finding about a model.

    Args:
        kind: its name among ``KINDS``.
        file: the file.
        line: its line, from 1; 0 where it concerns the whole file.
        message: what was found.
    """

    kind: str
    file: Path
    line: int
    message: str

    @property
    def severity(self) -> Severity:
        """How bad it is: "error", "warning" or "note"."""
        return KINDS[self.kind].severity

    @property
    def consequence(self) -> str:
        """What Bullet does with it."""
        return KINDS[self.kind].meaning

    @property
    def remedy(self) -> str:
        """What you can do about it."""
        return KINDS[self.kind].remedy

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}" if self.line else str(self.file)
        parts = [f"{where}: {self.severity}: {self.message}", self.consequence, self.remedy]
        return f"{'; '.join(part for part in parts if part)} [{self.kind}]"


@dataclass
class Findings:
    """Findings about a model while it is read."""

    found: list[Finding] = field(default_factory=list)

    def add(self, kind: str, place: Place, message: str) -> None:
        """Add a finding, unless it is there."""
        finding = Finding(kind, place.file, place.line, message)
        if finding not in self.found[-100:]:
            self.found.append(finding)


class UnreadableError(Exception):
    """The file cannot be read at all; ``finding`` says why."""

    def __init__(self, kind: str, file: Path, line: int, message: str) -> None:
        self.finding = Finding(kind, file, line, message)
        super().__init__(str(self.finding))
