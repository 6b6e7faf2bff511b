"""`lingua node --demo` as a process: it registers, answers, and leaves in order on Ctrl-C."""

import asyncio
import os
import signal
import sys

import pytest

from client.scripted import ScriptedServer
from lingua_scheduler.commands.node import NodeRequest, run_node
from lingua_scheduler.errors import ConfigError
from lingua_scheduler.wire.codec import decode_node
from lingua_scheduler.wire.common import ErrorMessage
from lingua_scheduler.wire.node import JobResult, NodeHeartbeat, NodeRegister, NodeRegisterAck
from node.jobs import assign

PROGRAM = """
import sys
from lingua_scheduler.commands.node import NodeRequest, run_node
sys.exit(run_node(NodeRequest(url=sys.argv[1], node_id="demo-1", languages=("en", "pt"), capacity=3)))
"""


async def started(url: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        PROGRAM,
        url,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "NO_COLOR": "1"},
    )


async def test_it_registers_answers_and_leaves_on_a_signal() -> None:
    async with ScriptedServer("/ws/node", decode_node) as scheduler:
        process = await started(scheduler.url)
        peer = await scheduler.peer()
        register = await peer.hear(NodeRegister)
        assert (register.node_id, register.max_concurrent_jobs) == ("demo-1", 3)
        assert register.language_capabilities.asr_languages == ("en", "pt")
        await peer.say(NodeRegisterAck(node_id="demo-1", message="registered"))
        await peer.hear(NodeHeartbeat)
        await peer.say(assign())
        assert "[demo]" in (await peer.hear(JobResult)).text_translated
        process.send_signal(signal.SIGINT)
        out, err = await asyncio.wait_for(process.communicate(), 10)
        assert process.returncode == 0
        assert "registered as demo-1" in out.decode()
        assert "Traceback" not in err.decode()
        assert peer.socket.close_code == 1001


async def test_a_node_that_is_not_wanted_ends_with_one_line() -> None:
    async with ScriptedServer("/ws/node", decode_node) as scheduler:
        process = await started(scheduler.url)
        peer = await scheduler.peer()
        await peer.hear(NodeRegister)
        await peer.say(ErrorMessage(code="NO_GPU_AVAILABLE", message="a GPU is needed"))
        _, err = await asyncio.wait_for(process.communicate(), 10)
        assert process.returncode == 1
        assert "lingua: a GPU is needed" in err.decode()
        assert "Traceback" not in err.decode()


@pytest.mark.parametrize(
    ("request_", "flag"),
    [
        (NodeRequest(url="localhost"), "--url"),
        (NodeRequest(capacity=0), "--capacity"),
        (NodeRequest(languages=()), "--languages"),
        (NodeRequest(languages=("en:pt",)), "--languages"),
        (NodeRequest(node_id="a b"), "--node-id"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(request_, flag) -> None:
    with pytest.raises(ConfigError, match=flag):
        run_node(request_)
