"""`start` and `finish`: two features in parallel."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess

import pytest
from support.controlled_time import wait_until
from support.hook_calls import Hooked
from support.scratch_project import FEATURE, Project

from cli.scripts import WORKS, conforms
from cli.terminal import Terminal
from playbook_supervisor.commands import overview
from playbook_supervisor.commands.worktrees import start as starting
from playbook_supervisor.errors import StateError
from playbook_supervisor.project.playbooks.library import index_is_stale
from playbook_supervisor.sessions.store import selection
from playbook_supervisor.sessions.store.disk_store import DiskStore
from playbook_supervisor.system.git import checkout, gitpython

pytestmark = pytest.mark.measured

NEW = "014-new-thing"


def beside(project: Project, name: str = NEW) -> Project:
    """The worktree on that branch."""
    here = {each.branch: each.path for each in gitpython.worktrees(project.root)}
    return Project(here[name], project.home, project.env)


def hook(project: Project, text: str) -> None:
    file = project.write(".git/hooks/post-checkout", f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)


def nothing_remains(project: Project) -> bool:
    left = [*project.root.parent.glob("project-session-*"), NEW in project.git("branch")]
    return not any(left) and "project-session" not in project.git("worktree", "list")


# ── the journey ─────────────────────────────────────────────────────────────────────────────


def merge(main: Project, branch: str) -> None:
    main.git("merge", "-q", "--no-ff", "-m", f"Merge {branch}", branch)


def rebase(main: Project, branch: str) -> None:
    main.git("cherry-pick", f"main..{branch}")


def squash(main: Project, branch: str) -> None:
    main.git("merge", "-q", "--squash", branch)
    main.commit(f"{branch} (#1)")


def test_two_features_run_in_parallel_and_finish(installed: Project) -> None:
    """kai FR35, FR36, NFR12, J4, S-B3: each in its own worktree with its own session; both journals
    are merged."""
    installed.gh("open")
    installed.git("branch", "-f", FEATURE, "main")
    script = installed.script(WORKS)
    names, trees = {}, {}
    for feature in (FEATURE, NEW):
        started = installed.playbook("start", "auto-feature", feature[:3])
        assert started.code == 0, started.err
        created, where, run, then = started.out.splitlines()
        names[feature] = created.split()[2]
        folder = f"../project-session-{names[feature]}"
        assert created == f"✓ Session {names[feature]} created"
        assert where == f"✓ Worktree created at {folder}"
        assert run == f"→ Run: cd {folder} && claude"
        assert then == f"→ Then type: /playbook.run auto-feature {feature}"
        assert "Claude Code asks once whether you trust the new folder" in started.err
        trees[feature] = beside(installed, feature)

    running = [
        tree.spawn("run", "auto-feature", feature[:3], "--agent", script)
        for feature, tree in trees.items()
    ]
    for process in running:
        process.communicate(timeout=120)
        assert process.returncode == 4

    status = installed.playbook("status")
    gates = [line for line in status.out.splitlines() if "WAITS FOR A HUMAN" in line]
    assert {line.split()[0] for line in gates} == set(names.values()), "both were adopted"
    assert all(re.search(r"at pr#1\?1, for \d", line) for line in gates)
    assert status.out.count("Run /feature.pr") == 2
    lost = installed.playbook("answer", "continue")
    assert (lost.code, "What waits: `playbook answer " in lost.err) == (3, True)
    for feature, name in names.items():
        assert installed.playbook("answer", name, "continue").code == 0
        assert installed.playbook("resume", name, "--agent", script).code == 0
        tree = trees[feature]
        assert conforms("status", tree.playbook("status", "--all", name, "--json").json)
        tree.write(f"{feature}.txt", "made\n")
        tree.playbook("index")
        tree.commit("The work")

    for way in (merge, rebase, squash):
        installed.git("switch", "-q", "-c", way.__name__, "main")
        installed.write("meanwhile.txt", "x\n")
        installed.commit("Meanwhile")
        for feature in names:
            way(installed, feature)
        assert [path.name for path in installed.sessions] == sorted(names.values())
        assert {store(installed).manifest(name).status for name in names.values()} == {"completed"}
        assert not index_is_stale(installed.root)
    installed.git("branch", "-f", "main", "squash")
    installed.git("switch", "-q", "main")

    finished = installed.playbook("finish", names[NEW])
    assert finished.out.splitlines() == [
        f"✓ Worktree ../project-session-{names[NEW]} removed",
        f"✓ Branch {NEW} removed: squashed or rebased into main, by "
        f"{installed.git('rev-parse', '--short=7', 'HEAD')}",
    ]
    inside = trees[FEATURE].playbook("finish")
    assert inside.out.splitlines()[-1] == f"→ Run: cd {installed.root}"
    assert nothing_remains(installed)
    assert installed.git("status", "--porcelain") == ""


def store(project: Project) -> DiskStore:
    return DiskStore(checkout.find(project.root))


# ── many, and killed ones ───────────────────────────────────────────────────────────────────


def test_four_starts_at_once_all_succeed(installed: Project) -> None:
    """Each has its own session, worktree and branch, although git alone would fail."""
    starts = [installed.spawn("start", "auto-feature", "014") for _ in range(4)]
    outputs = [process.communicate(timeout=120) for process in starts]
    assert [process.returncode for process in starts] == [0] * 4, outputs
    trees = gitpython.worktrees(installed.root)
    assert len({tree.branch for tree in trees}) == len(trees) == 5
    assert len(Project(installed.root, installed.home).playbook("status").out.splitlines()) == 8


def test_a_start_that_is_interrupted_leaves_nothing(installed: Project) -> None:
    """Git and its hooks end, too, even if they ignore signals."""
    marker = installed.root.with_name("marker")
    hook(installed, f"trap '' TERM; echo $$ >{marker}.new; mv {marker}.new {marker}; sleep 60")
    with installed.spawn("start", "auto-feature", "014") as process:
        wait_until(marker.exists)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=120)
    assert process.returncode == 143
    assert nothing_remains(installed)
    assert ended(int(marker.read_text()))


def ended(pid: int) -> bool:
    """Whether no process has that id; a zombie does not count."""
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True)
    return state.stdout.strip()[:1] in ("", "Z")


def test_the_next_start_cleans_up_after_a_killed_one(installed: Project) -> None:
    done = installed.root.with_name("done")
    hook(installed, f"[ -e {done} ] && exit 0; touch {done}; kill -9 $(ps -o ppid= $PPID)")
    killed = installed.process("start", "auto-feature", "014")
    assert killed.code == -signal.SIGKILL
    wait_until(lambda: (beside(installed).root / ".git").exists())
    again = installed.playbook("start", "auto-feature", "014")
    assert (again.code, "removed what a killed command left of" in again.err) == (0, True)
    assert len(gitpython.worktrees(installed.root)) == 2
    assert beside(installed).session.name in again.out


# ── with Claude Code ────────────────────────────────────────────────────────────────────────


def stand_in(project: Project) -> None:
    """A fake `claude` on PATH that prints its folder and arguments."""
    program = project.root.with_name("bin") / "claude"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\necho "here: $PWD $(pwd) asked: $*"\nexit 7\n')
    program.chmod(0o755)
    project.env["PATH"] = f"{program.parent}{os.pathsep}{os.environ['PATH']}"


def test_exec_opens_the_client_in_the_new_worktree(installed: Project) -> None:
    """kai P2-5."""
    stand_in(installed)
    with Terminal(installed, "start", "auto-feature", "014", "--exec") as terminal:
        assert terminal.end() == 7
    tree = beside(installed).root
    assert f"here: {tree} {tree} asked: /playbook.run auto-feature {NEW}" in terminal.shown
    assert "→" not in terminal.shown


def test_exec_without_a_client_or_a_terminal_is_refused_first(installed: Project) -> None:
    refused = installed.playbook("start", "auto-feature", "014", "--exec")
    assert (refused.code, "PB-ARG-USAGE" in refused.err) == (1, True)
    bare = installed.root.with_name("bare")
    bare.mkdir()
    installed.env["PATH"] = f"{bare}:/usr/bin:/bin"
    with Terminal(installed, "start", "auto-feature", "014", "--exec") as terminal:
        assert terminal.end() == 3
    assert "`claude` is not on PATH" in terminal.shown
    assert nothing_remains(installed)


def test_a_client_that_cannot_be_started_says_so(installed: Project) -> None:
    stand_in(installed)
    program = installed.root.with_name("bin") / "claude"
    program.write_text("#!/nowhere/at/all\n")
    installed.env["PATH"] = f"{program.parent}:/usr/bin:/bin"
    with Terminal(installed, "start", "auto-feature", "014", "--exec") as terminal:
        assert terminal.end() == 3
    assert "cannot start 'claude'" in terminal.shown
    assert "Worktree created at" in terminal.shown


# ── with an agent of one's own ──────────────────────────────────────────────────────────────


def own_agent(project: Project, *removed: str) -> None:
    """The settings name a program of one's own, which leaves what auto-validate looks at."""
    program = project.root.with_name("own")
    program.write_text(
        "#!/bin/sh\nmkdir -p .qa/014-new-thing\necho a plan >.qa/014-new-thing/test-plan.md\n"
        "echo 'verdict: PASS' >.qa/014-new-thing/verdict.md\n"
    )
    program.chmod(0o755)
    project.write(".playbooks/config.yaml", f"agent: own\nagents: {{own: {{exec: [{program}]}}}}\n")
    for name in removed:
        project.git("rm", "-rq", name)
    project.commit("Use our own agent")


@pytest.mark.parametrize(
    ("removed", "in_client"),
    [((".claude",), False), ((), True)],
    ids=["nothing of Claude Code", "both"],
)
def test_what_start_prints_works_with_the_agent_of_the_settings(
    installed: Project, removed: tuple[str, ...], in_client: bool
) -> None:
    own_agent(installed, *removed)
    started = installed.playbook("start", "auto-validate", "014")
    *_, run = started.out.splitlines()
    assert run.startswith("→ Run: cd ../project-session-")
    assert ("/playbook.run" in f"{started.out}{started.err}") is in_client
    assert "trust" not in started.err
    tree = beside(installed)
    command = run.partition(" && ")[2]
    assert command == f"playbook run auto-validate {NEW}"
    done = tree.playbook(*command.split()[1:])
    assert (done.code, tree.manifest()["status"]) == (0, "completed"), done.err


def test_an_agent_that_start_is_given_stays_with_the_session(installed: Project) -> None:
    agent = installed.script(WORKS)
    done = installed.playbook("start", "auto-feature", "014", "--agent", agent)
    assert done.code == 0, done.err
    there = beside(installed)
    assert "playbook run auto-feature" in done.out
    planned = there.playbook("run", "auto-feature", "014", "--dry-run")
    assert "· agent script\n" in planned.out
    ran = there.playbook("run", "auto-feature", "014")
    assert "plan#1 done" in ran.err
    assert there.manifest()["driver"]["agent"] == agent


def test_exec_runs_the_agent_that_start_is_given(installed: Project) -> None:
    agent = installed.script(WORKS)
    command = ("start", "auto-feature", "014", "--agent", agent, "--exec")
    with Terminal(installed, *command) as terminal:
        terminal.until("Worktree created at")
        terminal.until("plan")
        terminal.until("waits for you")


# ── finishing ───────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def unmerged(installed: Project) -> Project:
    """A worktree with unmerged work."""
    starting.start("auto-validate", ["014"], cwd=installed.root)
    tree = beside(installed)
    tree.write("made.txt", "x\n")
    tree.commit("Make")
    tree.write("more.txt", "x\n")
    return tree


def test_obstacles_are_printed_line_by_line(installed: Project, unmerged: Project) -> None:
    done = unmerged.playbook("finish")
    assert done.code == 3
    *_, dirty, ahead = done.out.splitlines()
    assert dirty == "not committed: ?? more.txt"
    assert ahead.startswith("not merged into main: ")
    assert ahead.endswith(" Make")
    assert "cannot be finished: 3 obstacles [PB-GIT-UNFINISHED]" in done.err
    assert "`git fetch` brings a merge at the forge." in done.err
    assert unmerged.root.exists()


def test_force_is_for_people_at_a_terminal(installed: Project, unmerged: Project) -> None:
    name = unmerged.session.name
    refused = installed.playbook("finish", name, "--force")
    assert (refused.code, "PB-STATE-HUMAN-ONLY" in refused.err) == (3, True)
    with Terminal(installed, "finish", name, "--force", CLAUDECODE="1") as terminal:
        assert terminal.end() == 3
    with Terminal(installed, "finish", name, "--force") as terminal:
        terminal.until("Discard this and remove")
        terminal.type("\n")
        assert terminal.end() == 1
    assert "nothing was removed" in terminal.shown
    assert unmerged.root.exists()
    with Terminal(installed, "finish", name, "--force") as terminal:
        terminal.until("[y/N]")
        terminal.type("y\n")
        assert terminal.end() == 0
    assert f"✓ Branch {NEW} removed" in terminal.shown
    assert f"✓ The journal of {name} was completed in {installed.root}" in terminal.shown
    assert nothing_remains(installed)
    gone = installed.playbook("finish", name)
    assert gone.out == f"✓ Worktree ../project-session-{name} was already gone\n"


# ── where a session lives ───────────────────────────────────────────────────────────────────


def test_the_printed_command_adopts_the_session(installed: Project) -> None:
    started = starting.start("auto-validate", ["014"], cwd=installed.root)
    tree = beside(installed)
    there = Hooked(tree)
    assert started.session_id in there.types(started.typed).shown
    there.types("/playbook.pause")
    tree.git("switch", "-q", "-c", "elsewhere")
    with pytest.raises(StateError, match=f"on branch {NEW}, and elsewhere is checked out here"):
        there.types("/playbook.resume")
    moved = there.types("/playbook.resume --on-this-branch")
    assert moved.snapshot.manifest.branch == "elsewhere"


def test_a_copy_from_git_is_not_driven(installed: Project) -> None:
    starting.start("auto-validate", ["014"], cwd=installed.root)
    tree = beside(installed)
    tree.commit("The journal")
    installed.git("merge", "-q", NEW)
    with pytest.raises(StateError) as caught:
        Hooked(installed).types(f"/playbook.resume {tree.session.name}")
    assert (caught.value.code, caught.value.where) == ("PB-STATE-ELSEWHERE", str(tree.root))
    assert f"cd {tree.root} && claude" in caught.value.guidance
    assert selection.choose(store(tree), tree.session.name).session_id == tree.session.name


def test_a_broken_file_is_named_so_that_it_can_be_opened_from_here(installed: Project) -> None:
    starting.start("auto-validate", ["014"], cwd=installed.root)
    broken = beside(installed).session / "session.yaml"
    broken.write_text("status: [\n")
    for here in (installed.root, installed.root / "specs", broken.parent):
        for command in ("status", "show", "resume"):
            done = installed.playbook(command, broken.parent.name, cwd=here)
            (place,) = set(re.findall(r"([^ (]*session\.yaml):\d+:\d+", done.out + done.err))
            assert (here / place).resolve() == broken, (command, done)


@pytest.fixture
def removed(installed: Project) -> Project:
    """A removed worktree whose session is at a gate, with staged work."""
    starting.start("auto-validate", ["014"], cwd=installed.root)
    tree = beside(installed)
    agent = tree.script("steps: {qa-plan: {write: {'.qa/{{feature}}/test-plan.md': a plan}}}")
    assert tree.playbook("run", "auto-validate", "014", "--agent", agent).code == 4
    tree.git("add", ".qa")
    shutil.rmtree(tree.root)
    return tree


def test_a_session_without_its_worktree_is_listed_and_restored(
    installed: Project, removed: Project
) -> None:
    where = f"../{removed.root.name}"
    (line, cure) = installed.playbook("status").out.splitlines()
    name = line.partition(" ")[0]
    assert line == f"{name}  the worktree of session {name} is gone ({where})"
    assert cure == f"  restore it: playbook repair {name} --restore"
    for command in (["show"], ["resume"], ["abort"], ["finish"], ["repair"]):
        done = installed.playbook(*command, name)
        assert (done.code, "[PB-STATE-NO-WORKTREE]" in done.err) == (3, True), command
    assert installed.playbook("answer", name, "accept").code == 3
    assert not removed.root.exists()
    back = installed.playbook("repair", name, "--restore")
    assert (back.code, f"worktree {where} restored" in back.err) == (0, True)
    assert removed.git("diff", "--cached", "--name-only") == f".qa/{NEW}/test-plan.md"
    assert removed.git("diff", "--name-only") == ""
    assert installed.playbook("answer", name, "accept").code == 0
    assert removed.playbook("resume").code == 0
    assert [entry["status"] for entry in removed.journal()] == ["done", "done"]


def test_another_folder_in_its_place_is_not_touched(installed: Project, removed: Project) -> None:
    name = overview.sessions(store(installed))[0].session_id
    removed.write("mine.txt", "x\n")
    done = installed.playbook("repair", name, "--restore")
    assert (done.code, "[PB-GIT-TAKEN]" in done.err) == (3, True)
    assert [file.name for file in removed.root.iterdir()] == ["mine.txt"]
    shutil.rmtree(removed.root)
    index = checkout.lost_worktrees(store(installed).checkout)[0].git_dir / "index"
    index.write_bytes(b"broken")
    done = installed.playbook("repair", name, "--restore")
    assert (done.code, "[PB-GIT-FAILED]" in done.err) == (3, True)
    assert not removed.root.exists()


def test_without_a_driver_the_home_copy_counts_else_the_longest(
    installed: Project,
) -> None:
    """After merges every worktree has every copy; an unreadable one hides no other."""
    starting.start("auto-validate", ["014"], cwd=installed.root)
    tree = beside(installed)
    tree.commit("The journal")
    installed.git("merge", "-q", NEW)
    installed.git("worktree", "add", "-q", "-b", "third", "../third")
    third = Project(installed.root.with_name("third"), installed.home)
    (seen,) = overview.sessions(store(installed))
    assert seen.root == tree.root, "it is driven there"
    private = store(tree).runtime(seen.session_id)
    for file in private.glob("runtime-*"):
        file.unlink()
    (seen,) = overview.sessions(store(third))
    assert seen.root == tree.root, "it says that it lives there"
    installed.git("worktree", "remove", "--force", str(tree.root))
    (seen,) = overview.sessions(store(third))
    assert seen.root == installed.root, "the main checkout has it all"
    journal = third.session / "journal.yaml"
    journal.write_text(f"{journal.read_text()}# more\n")
    (seen,) = overview.sessions(store(installed))
    assert seen.root == third.root, "its journal goes further there"
    journal.unlink()
    (seen,) = overview.sessions(store(installed))
    assert seen.root == installed.root
    (installed.session / "session.yaml").write_text("[")
    (seen,) = overview.sessions(store(installed))
    assert seen.root == installed.root
    (third.session / "session.yaml").write_text("[")
    (seen,) = overview.sessions(store(installed))
    assert seen.problem
    (third.root / ".git").unlink()
    third.git("init", "-q")
    assert len(overview.stores(store(installed))) == 1, "another repository stands there now"
