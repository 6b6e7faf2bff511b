from __future__ import annotations

import asyncio
import os
import random
import signal

import pytest

from lingua_scheduler.embedded import EmbeddedRedis
from lingua_scheduler.errors import ConfigError, CorruptValue, DependencyDown, StoreError
from lingua_scheduler.store.connection import Connection, StoreOptions
from support import wait_until

COUNT_ONCE = "redis.call('EXPIRE', KEYS[1], 600) return redis.call('HINCRBY', KEYS[1], ARGV[1], 1)"


@pytest.fixture
def own_server():
    """Run a server of the test's own, on a port, to be hurt."""
    server = EmbeddedRedis(port=0).start()
    yield server
    server.kill()


@pytest.fixture
async def connect():
    """Make connections that are closed after the test."""
    made = []

    def connect(server, *, on_state=None, **options):
        url = getattr(server, "url", server)
        settings = {"command_timeout_s": 0.3, "connect_timeout_s": 0.3, "reconnect_pause_s": 0.0, **options}
        made.append(Connection(StoreOptions(url=url, **settings), on_state=on_state))
        return made[-1]

    yield connect
    for each in made:
        await each.close()


async def answered(call):
    """Wait for a call and tell whether it was answered."""
    try:
        await call
    except DependencyDown:
        return False
    return True


async def socket_count(connection):
    listed = (await connection.call("CLIENT", "LIST")).decode()
    return listed.count("cmd=")


# One connection, many callers


async def test_replies_are_bytes_numbers_none_and_lists(connection, prefix):
    assert await connection.call("SET", f"{prefix}:x", b"\xff", "EX", 60) == b"OK"
    assert await connection.call("GET", f"{prefix}:x") == b"\xff"
    assert await connection.call("GET", f"{prefix}:none") is None
    assert await connection.call("EXISTS", f"{prefix}:x") == 1
    assert await connection.call("MGET", f"{prefix}:x", f"{prefix}:none") == [b"\xff", None]


async def test_calls_of_one_tick_travel_as_one_batch(own_server, connect):
    connection = connect(own_server)

    async def reads():
        stats = (await connection.call("INFO", "stats")).decode()
        return int(stats.partition("total_reads_processed:")[2].split()[0])

    before = await reads()
    await asyncio.gather(*(connection.call("PING") for _ in range(200)))
    assert await reads() - before <= 3


async def test_calls_of_a_later_tick_do_not_wait_for_the_answers_to_earlier_ones(own_server, connect):
    connection = connect(own_server, command_timeout_s=10)
    channel = connection._network._channel
    await connection.call("PING")
    os.kill(own_server.pid, signal.SIGSTOP)
    calls = []
    for n in range(3):
        calls.append(asyncio.create_task(connection.call("ECHO", n)))
        await wait_until(lambda n=n: len(channel.under_way) == n + 1, description="it was sent")
    os.kill(own_server.pid, signal.SIGCONT)
    assert await asyncio.gather(*calls) == [b"0", b"1", b"2"]
    assert channel.idle


async def test_a_stalled_redis_is_sent_a_bounded_number_of_batches(own_server, connect):
    """What was not sent when its caller gave up never runs."""
    connection = connect(own_server)
    channel = connection._network._channel
    await connection.call("PING")
    os.kill(own_server.pid, signal.SIGSTOP)
    sent = []
    for n in range(8):
        sent.append(asyncio.create_task(answered(connection.call("INCR", "sent"))))
        await wait_until(lambda n=n: len(channel.under_way) == n + 1, description="it was sent")
    late = [asyncio.create_task(answered(connection.call("INCR", "late"))) for _ in range(5)]
    assert not any(await asyncio.gather(*sent, *late))
    os.kill(own_server.pid, signal.SIGCONT)
    await wait_until(lambda: answered(connection.call("PING")), description="Redis goes on")
    assert await connection.call("GET", "late") is None


async def test_each_caller_gets_its_own_reply(connection):
    replies = await asyncio.gather(*(connection.call("ECHO", n) for n in range(5000)))
    assert replies == [str(n).encode() for n in range(5000)]
    assert await socket_count(connection) <= 2


async def test_large_values_travel_beside_small_ones(connection):
    texts = [random.Random(n).randbytes(n % 5 * 300_000 + n) for n in range(40)]
    assert await asyncio.gather(*(connection.call("ECHO", text) for text in texts)) == texts


async def test_a_call_runs_after_the_command_that_precedes_it(connection, prefix):
    key = f"{prefix}:x"
    first = ("SET", key, "1", "EX", 60)
    assert await connection.in_order(first, connection.call("INCR", key)) == 2


async def test_of_two_calls_in_order_whichever_fails_is_told(connection, prefix):
    key = f"{prefix}:x"
    with pytest.raises(StoreError, match="invalid expire"):
        await connection.in_order(("SET", key, "1", "PX", 0), connection.call("PING"))
    with pytest.raises(StoreError, match="wrong number"):
        await connection.in_order(("SET", key, "1", "PX", 0), connection.call("GET"))
    assert await connection.in_order(("PING",), connection.call("EXISTS", key)) == 0


async def test_a_command_that_cannot_even_wait_keeps_its_call_from_running(own_server, connect):
    shared = connect(own_server, queued_bytes=1024)
    waiting = shared.asked(("SET", "a", b"x" * 5000))
    with pytest.raises(DependencyDown, match="too much"):
        await shared.in_order(("SET", "c", b"x" * 5000), shared.call("SET", "d", "1"))
    await waiting
    assert await shared.call("EXISTS", "c", "d") == 0


async def test_an_error_reaches_only_its_caller(connection, prefix):
    await connection.call("SET", f"{prefix}:word", "x", "EX", 60)
    replies = await asyncio.gather(
        connection.call("ECHO", "a"),
        connection.call("LPUSH", f"{prefix}:word", "y"),
        connection.call("NONSENSE"),
        connection.call("ECHO", None),
        connection.call("ECHO", "b"),
        return_exceptions=True,
    )
    assert [type(reply) for reply in replies] == [bytes, CorruptValue, StoreError, TypeError, bytes]
    assert connection.up


@pytest.mark.parametrize("seed", range(5))
async def test_calls_given_up_at_random_never_disturb_the_others(connection, seed):
    """Cancelled before it was sent, while under way or after the answer: survivors get their own reply."""
    chance = random.Random(seed)
    survived = 0

    async def caller(name):
        nonlocal survived
        for number in range(20):
            text = f"{name}-{number}-{'x' * chance.choice((0, 0, 10, 20_000))}".encode()
            try:
                async with asyncio.timeout(chance.choice((None, None, 0, 0.0005, 0.002))):
                    assert await connection.call("ECHO", text) == text
                    survived += 1
            except TimeoutError:
                pass
            for _ in range(chance.randrange(3)):
                await asyncio.sleep(0)

    tasks = [asyncio.create_task(caller(name)) for name in range(150)]
    for task in chance.sample(tasks, 50):
        await asyncio.sleep(0)
        task.cancel()
    ended = await asyncio.gather(*tasks, return_exceptions=True)
    assert {type(each) for each in ended} <= {type(None), asyncio.CancelledError}
    assert survived > 500
    assert connection.up
    assert await socket_count(connection) <= 2


async def test_a_call_given_up_before_it_was_sent_does_not_run(connection, prefix):
    task = asyncio.create_task(connection.call("SET", f"{prefix}:x", 1, "EX", 60))
    other = asyncio.create_task(connection.call("PING"))
    await asyncio.sleep(0)
    task.cancel()
    assert await other == b"PONG"
    assert await connection.call("EXISTS", f"{prefix}:x") == 0


# Losses


@pytest.mark.parametrize("seed", range(3))
async def test_sockets_killed_under_load_never_mix_replies_and_run_nothing_twice(own_server, connect, seed):
    chance = random.Random(seed)
    connection = connect(own_server, command_timeout_s=5, connect_timeout_s=5)
    lost = ran = 0
    going = True

    async def caller(name):
        nonlocal lost, ran
        number = 0
        while going:
            number += 1
            mark = f"{name}-{number}"
            try:
                if chance.random() < 0.5:
                    assert await connection.call("ECHO", mark) == mark.encode()
                else:
                    assert await connection.call("EVAL", COUNT_ONCE, 1, "counts", mark) == 1
                    ran += 1
            except DependencyDown:
                lost += 1

    tasks = [asyncio.create_task(caller(name)) for name in range(50)]
    kills = 0
    with own_server.client() as killer:
        while kills < 20 or not lost:
            done = ran
            await wait_until(lambda done=done: ran > done + 50, description="calls go through")
            await asyncio.to_thread(killer.client_kill_filter, _type="normal", skipme=True)
            kills += 1
        going = False
        await asyncio.gather(*tasks)
        # Not through the connection: the last kill is told to the killer before it closes our socket.
        counts = killer.hvals("counts")
    assert set(counts) == {b"1"}
    assert ran <= len(counts) <= ran + lost


async def test_an_idle_connection_that_was_lost_costs_no_call(connection, redis_server):
    await connection.call("PING")
    with redis_server.client() as killer:
        killer.client_kill_filter(_type="normal", skipme=True)
    lost = connection._network._channel._line
    await wait_until(lambda: not lost.usable, description="the loss has arrived")
    assert await connection.call("PING") == b"PONG"


async def test_a_restarted_redis_is_found_again_by_the_next_calls(own_server, connect):
    states = []
    connection = connect(own_server, on_state=states.append)
    assert not connection.up
    await connection.call("PING")
    assert connection.up
    own_server.kill()
    assert not await answered(connection.call("PING"))
    assert not connection.up
    own_server.start()
    await wait_until(lambda: answered(connection.call("PING")), description="Redis is back")
    assert connection.up
    assert states == [True, False, True]


async def test_everyone_in_a_lost_batch_is_told(own_server, connect):
    connection = connect(own_server, command_timeout_s=10)
    await connection.call("PING")
    os.kill(own_server.pid, signal.SIGSTOP)
    first = [asyncio.create_task(connection.call("ECHO", n)) for n in range(20)]
    await wait_until(lambda: connection._network._channel.under_way, description="the batch was sent")
    own_server.kill()
    assert not any(await asyncio.gather(*map(answered, first)))


async def test_a_stalled_redis_fails_calls_by_their_deadline_and_runs_them_at_most_once(own_server, connect):
    connection = connect(own_server)
    await connection.call("PING")
    loop = asyncio.get_running_loop()
    os.kill(own_server.pid, signal.SIGSTOP)
    started = loop.time()
    sent = asyncio.create_task(answered(connection.call("INCR", "sent")))
    await wait_until(lambda: connection._network._channel.under_way, description="the first was sent")
    queued = asyncio.create_task(answered(connection.call("INCR", "queued")))
    assert not await sent
    assert not await queued
    assert 0.29 <= loop.time() - started < 3  # the loop rounds its time
    assert not connection.up
    os.kill(own_server.pid, signal.SIGCONT)
    await wait_until(lambda: answered(connection.call("PING")), description="Redis goes on")
    assert set(await connection.call("MGET", "sent", "queued")) <= {None, b"1"}


async def test_the_deadline_of_one_call_does_not_end_the_wait_of_another(own_server, connect):
    """A caller that waited in the queue gives up on time; the socket serves those who came later."""
    connection = connect(own_server)
    channel = connection._network._channel
    await connection.call("PING")
    os.kill(own_server.pid, signal.SIGSTOP)
    hasty = channel.submit((b"*1\r\n$4\r\nPING\r\n",), timeout_s=0.01)
    patient = channel.submit((b"*1\r\n$4\r\nPING\r\n",), timeout_s=10)
    with pytest.raises(DependencyDown, match="in time"):
        await hasty
    os.kill(own_server.pid, signal.SIGCONT)
    assert await patient == b"PONG"
    assert connection.up


async def test_an_absent_redis_fails_at_once_and_is_not_tried_again_within_the_pause(own_server, connect):
    connection = connect(own_server, reconnect_pause_s=60)
    own_server.kill()
    assert not await answered(connection.call("PING"))
    own_server.start()
    with pytest.raises(DependencyDown, match="not reachable"):
        await connection.call("PING")


async def test_a_silent_redis_fails_calls_by_their_deadline_while_connecting(connect):
    async def silent(_reader, writer):
        await stop.wait()
        writer.close()

    stop = asyncio.Event()
    async with await asyncio.start_server(silent, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        connection = connect(f"redis://:secret@127.0.0.1:{port}", connect_timeout_s=30)
        with pytest.raises(DependencyDown, match="in time"):
            await connection.call("PING")
        stop.set()


async def test_a_wrong_password_is_a_clear_failure_without_the_secret(own_server, connect):
    connection = connect(f"redis://:hunter2@127.0.0.1:{own_server.port}")
    with pytest.raises(DependencyDown, match=r"(?i)password") as failure:
        await connection.call("PING")
    assert "hunter2" not in str(failure.value)


async def test_a_full_redis_refuses_and_recovers(own_server, connect):
    connection = connect(own_server)
    await connection.call("CONFIG", "SET", "maxmemory", 1)
    with pytest.raises(DependencyDown, match="maxmemory"):
        await connection.call("SET", "x", 1)
    await connection.call("CONFIG", "SET", "maxmemory", 0)
    assert await connection.call("SET", "x", 1) == b"OK"


async def test_a_script_on_a_full_redis_runs_as_a_whole_or_not_at_all(own_server, connect):
    """The first write decides: one that needs memory is refused; after one that does not, all are done."""
    connection = connect(own_server)
    await connection.call("RPUSH", "list", "x", "y")
    await connection.call("CONFIG", "SET", "maxmemory", 1)
    take, put = "redis.call('LPOP', KEYS[1]) ", "redis.call('SET', KEYS[2], 1) "
    with pytest.raises(DependencyDown, match="maxmemory"):
        await connection.call("EVAL", put + take, 2, "list", "new")
    assert (await connection.call("EXISTS", "new"), await connection.call("LLEN", "list")) == (0, 2)
    await connection.call("EVAL", take + put, 2, "list", "new")
    assert (await connection.call("EXISTS", "new"), await connection.call("LLEN", "list")) == (1, 1)
    assert connection.up


async def test_a_paused_redis_is_waited_for_until_the_deadline(own_server, connect):
    connection = connect(own_server, command_timeout_s=10)
    hasty = connect(own_server)
    await connection.call("PING")
    await wait_until(lambda: answered(hasty.call("PING")), description="both are connected")
    with own_server.client() as pauser:
        pauser.client_pause(700)
    assert not await answered(hasty.call("INCR", "x"))
    assert await connection.call("ECHO", "a") == b"a"
    assert await connection.call("GET", "x") in {None, b"1"}
    await wait_until(lambda: answered(hasty.call("PING")), description="the pause is over for both")


async def test_what_waits_to_be_sent_is_bounded_in_bytes(own_server, connect):
    connection = connect(own_server, queued_bytes=100_000)
    calls = [asyncio.create_task(answered(connection.call("ECHO", "x" * 10_000))) for _ in range(20)]
    small = asyncio.create_task(connection.call("PING"))
    assert sum(await asyncio.gather(*calls)) == 9
    assert await small == b"PONG", "who brings little is not turned away"


async def test_one_call_larger_than_the_bound_still_travels(own_server, connect):
    connection = connect(own_server, queued_bytes=1024)
    assert len(await connection.call("ECHO", "x" * 5000)) == 5000


async def test_batches_are_bounded_in_calls(own_server, connect):
    connection = connect(own_server, batch_calls=7)
    assert await asyncio.gather(*(connection.call("ECHO", n) for n in range(100))) == [
        str(n).encode() for n in range(100)
    ]


async def test_closing_fails_who_waits_and_who_comes_later(own_server, connect):
    connection = connect(own_server, command_timeout_s=10)
    await connection.call("PING")
    os.kill(own_server.pid, signal.SIGSTOP)
    waiting = asyncio.create_task(connection.call("PING"))
    await wait_until(lambda: connection._network._channel.under_way, description="the call was sent")
    await connection.close()
    with pytest.raises(DependencyDown, match="closed"):
        await waiting
    with pytest.raises(DependencyDown, match="closed"):
        await connection.call("PING")


# Blocking reads


async def test_a_blocking_read_delays_nobody(connection, prefix):
    reader = connection.blocking()
    inbox = f"{prefix}:inbox"
    await connection.call("XGROUP", "CREATE", inbox, "all", "$", "MKSTREAM")
    await connection.call("EXPIRE", inbox, 60)
    read = ("XREADGROUP", "GROUP", "all", "me", "BLOCK", 30_000, "STREAMS", inbox, ">")
    waiting = asyncio.create_task(reader.call(*read, block_s=30))
    await wait_until(lambda: blocked(connection), description="the reader waits inside Redis")
    assert await connection.call("PING") == b"PONG"
    entry = await connection.call("XADD", inbox, "*", "payload", "hello")
    assert await waiting == [[inbox.encode(), [[entry, [b"payload", b"hello"]]]]]
    await reader.close()


async def blocked(connection):
    return b"blocked_clients:1" in await connection.call("INFO", "clients")


async def test_a_blocking_read_that_finds_nothing_gives_none(connection, prefix):
    reader = connection.blocking()
    assert await reader.call("BLPOP", f"{prefix}:none", 0.01, block_s=0.01) is None


async def test_giving_up_a_blocking_read_frees_it_inside_redis(connection, prefix):
    reader = connection.blocking()
    waiting = asyncio.create_task(reader.call("BLPOP", f"{prefix}:none", 30, block_s=30))
    await wait_until(lambda: blocked(connection), description="the reader waits inside Redis")
    waiting.cancel()

    async def free():
        return not await blocked(connection)

    await wait_until(free, description="nobody waits inside Redis")
    await connection.call("RPUSH", f"{prefix}:some", "x")
    assert await reader.call("BLPOP", f"{prefix}:some", 30, block_s=30) == [f"{prefix}:some".encode(), b"x"]


async def test_a_blocking_read_outlives_the_timeout_of_commands(own_server, connect):
    connection = connect(own_server)
    reader = connection.blocking()
    assert await reader.call("BLPOP", "none", 0.4, block_s=0.4) is None


async def test_closing_the_connection_ends_its_blocking_reads(connection, prefix):
    reader = connection.blocking()
    waiting = asyncio.create_task(reader.call("BLPOP", f"{prefix}:none", 30, block_s=30))
    await wait_until(lambda: blocked(connection), description="the reader waits inside Redis")
    await connection.close()
    with pytest.raises(DependencyDown, match="closed"):
        await waiting


# Options


def test_the_secret_of_the_address_is_not_shown():
    options = StoreOptions(url="rediss://user:hunter2@db:6380/1?password=hunter2,redis://:hunter2@other:1")
    assert "hunter2" not in repr(options) + str(options) + f"{options}"
    assert "rediss://db:6380/1,redis://other:1" in repr(options)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"url": "http://x"}, "redis.url: .*schemes"),
        ({"url": ""}, "redis.url: .*schemes"),
        ({"url": "unix:///x", "mode": "cluster"}, "unix socket"),
    ],
)
def test_an_address_that_cannot_be_used_is_refused_at_once(options, complaint):
    with pytest.raises(ConfigError, match=complaint):
        Connection(StoreOptions(**options))
