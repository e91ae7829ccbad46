//! What Redis does and a counter database does not: each refusal says what to use instead.
//!
//! Names that Redis does not know either get its words for that.

use super::increx::NO_EXPIRY;
use crate::resp::{Arguments, RequestError};

/// Said wherever Redis counts in fractions.
pub(super) const WHOLE_NUMBERS: &str =
    "counters hold whole numbers; count in a smaller unit (cents, milliseconds) with INCRBY";

/// Commands of Redis 7.0 with one thing to be said about all of them.
struct Family {
    /// In lower case, apart by spaces.
    names: &'static str,
    instead: &'static str,
}

const CLUSTER: &str = "asking cluster readonly readwrite";

static FAMILIES: [Family; 21] = [
    Family {
        names: "expire expireat expiretime getex persist pexpire pexpireat pexpiretime psetex pttl setex ttl",
        instead: NO_EXPIRY,
    },
    Family { names: "hincrbyfloat incrbyfloat", instead: WHOLE_NUMBERS },
    Family {
        names: "append bitcount bitfield bitfield_ro bitop bitpos getbit getrange lcs setbit setrange strlen substr",
        instead: "this is a counter database and keeps whole numbers only; use INCRBY, SET key n and GET",
    },
    Family {
        names: "getdel getset",
        instead: "use GET, then DEL or SET key n; to change a counter and learn its value in one step, use INCRBY",
    },
    Family {
        names: "mset msetnx",
        instead: "use SET key n once per counter, in MULTI and EXEC if they belong together",
    },
    Family {
        names: "setnx",
        instead: "to create a counter only if there is none, use COUNTER.CREATE key VALUE n",
    },
    Family {
        names: "hdel hexists hget hgetall hincrby hkeys hlen hmget hmset hrandfield hscan hset hsetnx hstrlen hvals",
        instead: "this is a counter database; use one counter per field, as in INCRBY key:field n, and MGET to read several",
    },
    Family {
        names: "bzmpop bzpopmax bzpopmin zadd zcard zcount zdiff zdiffstore zincrby zinter zintercard zinterstore \
                zlexcount zmpop zmscore zpopmax zpopmin zrandmember zrange zrangebylex zrangebyscore zrangestore zrank \
                zrem zremrangebylex zremrangebyrank zremrangebyscore zrevrange zrevrangebylex zrevrangebyscore zrevrank \
                zscan zscore zunion zunionstore",
        instead: "this is a counter database; use one counter per member, as in INCRBY key:member n, and sort at the client",
    },
    Family {
        names: "blmove blmpop blpop brpop brpoplpush lindex linsert llen lmove lmpop lpop lpos lpush lpushx lrange lrem \
                lset ltrim rpop rpoplpush rpush rpushx",
        instead: "this is a counter database and keeps no lists; to count what a list would hold, use INCR",
    },
    Family {
        names: "sadd scard sdiff sdiffstore sinter sintercard sinterstore sismember smembers smismember smove spop \
                srandmember srem sscan sunion sunionstore",
        instead: "this is a counter database and keeps no sets; to count something once, use INCR key IDMP producer id",
    },
    Family {
        names: "xack xadd xautoclaim xclaim xdel xgroup xinfo xlen xpending xrange xread xreadgroup xrevrange xsetid xtrim",
        instead: "this is a counter database and keeps no streams; to count events, each once, use INCR key IDMP producer id",
    },
    Family {
        names: "geoadd geodist geohash geopos georadius georadius_ro georadiusbymember georadiusbymember_ro geosearch \
                geosearchstore",
        instead: "this is a counter database and keeps no places; to count by area, use a counter per area",
    },
    Family {
        names: "pfadd pfcount pfdebug pfmerge pfselftest",
        instead: "this is a counter database and does not estimate; to count something once, use INCR key IDMP producer id",
    },
    Family {
        names: "eval eval_ro evalsha evalsha_ro fcall fcall_ro function script",
        instead: "there are no scripts; use INCREX to add within bounds, COUNTER.CREATE for bounds that always hold, and \
                  MULTI and EXEC for several commands at once",
    },
    Family {
        names: "psubscribe publish pubsub punsubscribe spublish ssubscribe subscribe sunsubscribe unsubscribe",
        instead: "there are no channels; to follow a counter, watch it over HTTP",
    },
    Family {
        names: "copy dump migrate move rename renamenx restore restore-asking swapdb",
        instead: "a count belongs to its key; read it with GET, and go on under another key with SET key n",
    },
    Family {
        names: "object randomkey sort sort_ro touch",
        instead: "use COUNTER.INFO key for all that is known about a counter, and SCAN for the keys",
    },
    Family {
        names: "bgrewriteaof bgsave lastsave save",
        instead: "the server stores what it counts by itself, as its durability setting says",
    },
    Family {
        names: "failover psync replconf replicaof role slaveof sync",
        instead: "sites do not follow a master, and are set up in the configuration",
    },
    Family {
        names: "latency memory monitor slowlog",
        instead: "use INFO, or the metrics that the server shows over HTTP",
    },
    Family {
        names: "acl debug lolwut module shutdown time",
        instead: "users and settings are in the configuration, and the server is stopped by a signal",
    },
];

/// `WATCH`, which has a grammar of its own.
pub(crate) fn watch() -> RequestError {
    RequestError::NotSupported {
        command: "WATCH".to_owned(),
        instead: "to add only within bounds use INCREX with LBOUND and UBOUND, or COUNTER.CREATE with MIN and MAX; to \
                  count a retry once use IDMP",
    }
}

/// Why a command that is not ours is refused.
#[cold]
pub(super) fn why(arguments: Arguments<'_>) -> RequestError {
    let name = arguments.name();
    let listed =
        |names: &'static str| names.split(' ').find(|known| known.as_bytes().eq_ignore_ascii_case(name));
    if let Some(name) = listed(CLUSTER) {
        let lacks_its_second_word = name == "cluster" && arguments.len() == 1;
        return if lacks_its_second_word {
            RequestError::WrongArity { command: name }
        } else {
            RequestError::ClusterDisabled
        };
    }
    for family in &FAMILIES {
        if let Some(name) = listed(family.names) {
            return RequestError::NotSupported {
                command: name.to_ascii_uppercase(),
                instead: family.instead,
            };
        }
    }
    RequestError::unknown_command(arguments)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::resp::{Mode, commands};

    /// Redis 7.0.15 has 240 commands; we have 33 of them.
    #[test]
    fn every_command_of_redis_is_known_once() {
        let mut names = BTreeSet::new();
        for name in FAMILIES.iter().flat_map(|family| family.names.split(' ')).chain(CLUSTER.split(' ')) {
            assert!(!name.is_empty(), "two spaces in a row");
            assert!(names.insert(name), "{name} is refused twice");
            assert!(commands::by_name(name.as_bytes()).is_none(), "{name} is refused and done");
        }
        let own = commands::all(Mode::Alone)
            .filter(|spec| !spec.name.starts_with("counter.") && spec.name != "increx")
            .count();
        assert_eq!((names.len(), own), (207, 33));
    }
}
