"""redis-py against a running server: python redis_py.py PORT PROTOCOL.

Prints RESTART when the server is to be started again on the same port, and goes on when it reads a line.
Every check is an assertion; the last line is OK.
"""

import sys
import threading
import time

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

PORT, PROTOCOL = int(sys.argv[1]), int(sys.argv[2])
# Nothing is sent twice unless this program says so.
OPTIONS = dict(host="127.0.0.1", port=PORT, protocol=PROTOCOL, socket_timeout=30, retry=Retry(NoBackoff(), 0))
client = redis.Redis(decode_responses=True, **OPTIONS)
prefix = f"py{PROTOCOL}:"


def key(name):
    return prefix + name


def refused(error, words, function, *arguments):
    try:
        answer = function(*arguments)
    except error as refusal:
        assert words in str(refusal), refusal
    else:
        raise AssertionError(f"{arguments} was answered with {answer}")


def counting():
    assert client.ping() is True
    assert client.incr(key("a")) == 1
    assert client.incrby(key("a"), 41) == 42
    assert client.decr(key("a"), 2) == 40
    assert client.decrby(key("a"), 0) == 40
    assert client.get(key("a")) == "40"
    assert client.get(key("nothing")) is None
    assert client.set(key("b"), -7) is True
    assert client.mget(key("a"), key("nothing"), key("b")) == ["40", None, "-7"]
    assert client.exists(key("a"), key("a"), key("nothing")) == 2
    assert client.type(key("a")) == "string"
    assert client.delete(key("b"), key("nothing")) == 1
    assert client.unlink(key("a")) == 1
    assert client.echo("\u00fc\r\n") == "\u00fc\r\n"
    assert client.client_id() > 0
    assert client.client_setname("tests") is True
    assert client.client_getname() == "tests"
    assert client.wait(0, 0) == 0
    assert client.wait(1, 50) == 0
    assert client.info("server")["redis_version"]
    assert client.config_get("maxclients")
    assert "incrby" in client.command()


def exactly_once():
    def add(amount, number):
        return client.execute_command("INCRBY", key("once"), amount, "IDMP", "py", number)

    assert add(5, "1") == 5
    assert add(5, "1") == 5
    assert add(5, "2") == 10
    assert add(5, "1") == 5
    refused(redis.ResponseError, "IDMPMISMATCH", add, 6, "1")
    assert client.get(key("once")) == "10"
    assert client.execute_command("COUNTER.OUTCOME", key("once"), "py", "2") == ["counted", 10, 5, "1"]
    assert client.execute_command("COUNTER.OUTCOME", key("once"), "py", "3") == ["unknown"]


def bounded():
    assert client.execute_command("COUNTER.CREATE", key("stock"), "MIN", 0, "VALUE", 2) == "OK"
    assert client.decr(key("stock")) == 1
    refused(redis.ResponseError, "OUTOFBOUNDS", client.decrby, key("stock"), 2)
    assert client.execute_command("INCREX", key("x"), "BYINT", 7, "UBOUND", 5, "SATURATE") == [5, 5]
    info = client.execute_command("COUNTER.INFO", key("stock"))
    if isinstance(info, list):
        info = dict(zip(info[::2], info[1::2]))
    assert info["value"] == 1 and info["min"] == 0 and info["max"] is None, info


def pipelines():
    with client.pipeline() as pipe:
        pipe.incr(key("p")).incrby(key("p"), 10).get(key("p")).get(key("nothing"))
        assert pipe.execute() == [1, 11, "11", None]
    with client.pipeline(transaction=False) as pipe:
        for _ in range(1000):
            pipe.incr(key("p"))
        assert pipe.execute() == list(range(12, 1012))
    with client.pipeline() as pipe:
        pipe.incr(key("p")).execute_command("INCRBY", key("p"), "x").incr(key("p")).ping()
        answers = pipe.execute(raise_on_error=False)
        assert answers[0] == 1012 and answers[2] == 1013 and answers[3] is True
        assert isinstance(answers[1], redis.ResponseError), answers
        refused(redis.ResponseError, "not an integer", pipe.execute_command("INCRBY", key("p"), "x").execute)
    with client.pipeline() as pipe:
        pipe.incr(key("p")).execute_command("INCR")
        refused(redis.ResponseError, "wrong number of arguments", pipe.execute)
    assert client.get(key("p")) == "1013"
    with client.pipeline() as pipe:
        refused(redis.ResponseError, "WATCH is not supported", pipe.watch, key("p"))


def lists():
    names = {key(f"scan:{number}") for number in range(1500)}
    with client.pipeline(transaction=False) as pipe:
        for name in names:
            pipe.set(name, 1)
        pipe.execute()
    found = list(client.scan_iter(match=key("scan:*"), count=100))
    assert len(found) == len(set(found)) and set(found) == names
    assert set(client.keys(key("scan:*"))) == names
    assert client.dbsize() >= len(names)
    assert client.delete(*names) == len(names)
    assert list(client.scan_iter(match=key("scan:*"))) == []


def errors():
    refused(redis.ResponseError, "value is not an integer", client.set, key("e"), "text")
    refused(redis.ResponseError, "not an integer", client.execute_command, "INCRBY", key("e"), "1.5")
    refused(redis.ResponseError, "INCRBYFLOAT is not supported", client.incrbyfloat, key("e"), 1.5)
    refused(redis.ResponseError, "EXPIRE is not supported", client.expire, key("e"), 10)
    refused(redis.ResponseError, "unknown command", client.execute_command, "NOSUCH")
    client.set(key("big"), 2**63 - 1)
    refused(redis.ResponseError, "would overflow", client.incr, key("big"))
    assert client.get(key("big")) == str(2**63 - 1)


def pools():
    pool = redis.BlockingConnectionPool(max_connections=8, timeout=30, **OPTIONS)

    def add():
        for _ in range(100):
            redis.Redis(connection_pool=pool).incr(key("pool"))

    threads = [threading.Thread(target=add) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert client.get(key("pool")) == "1600"
    pool.disconnect()


def reconnecting():
    client.set(key("r"), 1)
    retrying = redis.Redis(
        decode_responses=True, **{**OPTIONS, "retry": Retry(redis.backoff.ConstantBackoff(0.2), 50)}
    )
    assert retrying.execute_command("INCRBY", key("r"), 1, "IDMP", "py", "r1") == 2
    print("RESTART", flush=True)
    assert sys.stdin.readline()
    # The pool holds connections to a server that is no more: it makes new ones, and a repeat counts once.
    assert retrying.execute_command("INCRBY", key("r"), 1, "IDMP", "py", "r1") == 2
    assert retrying.execute_command("INCRBY", key("r"), 1, "IDMP", "py", "r2") == 3
    until = time.monotonic() + 30
    while True:
        try:
            assert client.get(key("r")) == "3"
            break
        except redis.ConnectionError:
            assert time.monotonic() < until


for check in [counting, exactly_once, bounded, pipelines, lists, errors, pools, reconnecting]:
    check()
    print(check.__name__, flush=True)
print("OK", flush=True)
