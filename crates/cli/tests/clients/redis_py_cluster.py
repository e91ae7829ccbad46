"""RedisCluster of redis-py against nodes that share a site: python redis_py_cluster.py PORT.

Says in capital letters what it wants to be done to the nodes, and goes on when it reads a line: MARK and STRAIGHT
compare how many commands have taken a detour between the two, DRAIN and KILL let a node go and come back. Every check is
an assertion; the last line is OK.
"""

import sys
import threading
import time

import redis
from redis.cluster import ClusterNode, RedisCluster

PORT = int(sys.argv[1])
PRODUCERS, KEYS = 4, 40
# What may be tried again, with its id: nothing is counted twice.
PASSING = ("INDOUBT", "NOTSTORED", "TRYAGAIN")


def connect(protocol=3):
    nodes = [ClusterNode("127.0.0.1", PORT)]
    return RedisCluster(startup_nodes=nodes, protocol=protocol, decode_responses=True, socket_timeout=10)


client = connect()


def ask(word):
    print(word, flush=True)
    assert sys.stdin.readline(), "nobody listens"


def refused(words, function, *arguments):
    try:
        answer = function(*arguments)
    except redis.RedisError as refusal:
        assert words in str(refusal), refusal
    else:
        raise AssertionError(f"{arguments} was answered with {answer}")


def counting():
    assert len(client.get_primaries()) == 3, client.get_nodes()
    for number in range(KEYS):
        assert client.incr(f"py:{number}") == 1
        assert client.incrby(f"py:{number}", number) == 1 + number
    assert client.mget("{tag}a", "{tag}b") == [None, None]
    assert client.mget_nonatomic("py:1", "py:2", "py:3") == ["2", "3", "4"]
    with client.pipeline() as pipe:
        for number in range(KEYS):
            pipe.get(f"py:{number}")
        assert pipe.execute() == [str(1 + number) for number in range(KEYS)]
    assert client.execute_command("COUNTER.CREATE", "stock", "MIN", 0, "VALUE", 1) == "OK"
    assert client.decr("stock") == 0
    refused("OUTOFBOUNDS", client.decr, "stock")
    assert client.execute_command("INCREX", "py:x", "BYINT", 7, "UBOUND", 5, "SATURATE") == [5, 5]


def transactions():
    with client.pipeline(transaction=True) as pipe:
        assert pipe.incr("{pair}a").incrby("{pair}b", 5).execute() == [1, 5]
    raw = client.get_redis_connection(client.get_node_from_key("{pair}a"))
    with raw.pipeline(transaction=True) as pipe:
        refused("don't hash to the same slot", pipe.mget("{pair}a", "other").execute)


def lists():
    """Each node tells of its own counters alone, and the client adds them up."""
    names = {f"py:{number}" for number in range(KEYS)} | {"py:x", "stock", "{pair}a", "{pair}b"}
    found = list(client.scan_iter(count=7))
    assert len(found) == len(names) and set(found) == names, sorted(found)
    assert set(client.keys("*", target_nodes=RedisCluster.PRIMARIES)) == names
    assert client.dbsize(target_nodes=RedisCluster.PRIMARIES) == len(names)


def both_protocols():
    second = connect(protocol=2)
    assert second.get("py:3") == "4"
    assert second.cluster_info(target_nodes=RedisCluster.RANDOM)["cluster_state"] == "ok"
    second.close()


def straight():
    ask("MARK")
    for number in range(300):
        client.incr(f"py:{number % KEYS}")
    ask("STRAIGHT")


def until_answered(cluster, key, producer, number, errors):
    """Sends the same until it is answered."""
    while True:
        try:
            return cluster.execute_command("INCRBY", key, 1, "IDMP", producer, number)
        except redis.ResponseError as refusal:
            assert str(refusal).split(" ")[0] in PASSING or isinstance(refusal, redis.exceptions.ClusterError), refusal
            errors.append(refusal)
        except (redis.ConnectionError, redis.TimeoutError, redis.exceptions.RedisClusterException) as failure:
            errors.append(failure)
        time.sleep(0.05)


def trouble():
    stop, sums, waits, errors, failures = threading.Event(), [0] * KEYS, [], [], []
    lock = threading.Lock()

    def produce(name):
        try:
            cluster, number = connect(), 0
            while not stop.is_set():
                at = (number * 7 + len(name)) % KEYS
                began = time.monotonic()
                until_answered(cluster, f"once:{at}", name, number, errors)
                number += 1
                with lock:
                    sums[at] += 1
                    waits.append(time.monotonic() - began)
            cluster.close()
        except BaseException as failure:  # told below
            failures.append(failure)

    producers = [threading.Thread(target=produce, args=("p" * number,)) for number in range(1, PRODUCERS + 1)]
    for producer in producers:
        producer.start()
    time.sleep(1)
    ask("DRAIN")
    # Shards that are handed over are waited for, and MOVED is the library's business.
    assert not errors, errors
    ask("KILL")
    stop.set()
    for producer in producers:
        producer.join()
    assert not failures, failures
    fresh = connect()
    counted = [int(fresh.get(f"once:{at}") or 0) for at in range(KEYS)]
    assert counted == sums and sum(sums) > 100, (counted, sums)
    fresh.close()
    print(f"{sum(sums)} counted, each once; the longest wait {max(waits):.1f} s", flush=True)


for check in (counting, transactions, lists, both_protocols, straight, trouble):
    check()
    print(check.__name__, flush=True)
client.close()
print("OK", flush=True)
