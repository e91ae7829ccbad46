//! `--print-config`: the settings as a file that `--config` reads, with where each comes from.

use quipu_server::config::{
    CLUSTER_DEFAULT, Config, Origin, SHARDS_DEFAULT, SITE_DEFAULT, Settings, format_bytes, format_duration,
    settings,
};
use std::{fmt::Write, net::SocketAddr};
use toml::Value;

/// What is written for a setting.
enum Shown {
    Value(Value),
    /// There is one that is not to be seen. As a comment: read again, the mask would become the password.
    Masked,
    /// There is none; what that means.
    Unset(String),
}

pub(super) fn toml(config: &Config, settings: &Settings) -> String {
    let mut text = String::new();
    for known in settings::ALL {
        let origin = match settings.origin(known) {
            Origin::Default => "default".to_owned(),
            Origin::File(path) => format!("from {}", path.display()),
            Origin::Environment => format!("from {}", known.variable),
            Origin::Flag => format!("from {}", known.flag),
        };
        // Writing to a text cannot fail.
        let _ = match shown(known, config, settings) {
            Shown::Value(value) => writeln!(text, "{} = {value} # {origin}", known.name),
            Shown::Masked => writeln!(text, "# {} = \"********\" # {origin}", known.name),
            Shown::Unset(meaning) => writeln!(text, "# {} is not set: {meaning}", known.name),
        };
    }
    text
}

fn shown(known: &settings::Known, config: &Config, settings: &Settings) -> Shown {
    let text = |text: &dyn ToString| Value::String(text.to_string());
    let address = |address: Option<SocketAddr>| text(&address.map_or("off".to_owned(), |it| it.to_string()));
    let number = |number: usize| Value::Integer(i64::try_from(number).unwrap_or(i64::MAX));
    let optional = |value: Option<Value>, meaning: &str| match value {
        Some(value) => Shown::Value(value),
        None => Shown::Unset(meaning.to_owned()),
    };
    let value = match *known {
        settings::DATA => text(&config.data.display()),
        settings::STORAGE => {
            let meaning = "everything is in the data folder";
            return optional(settings.text(known).map(|url| text(&url)), meaning);
        }
        settings::STORAGE_USER | settings::STORAGE_TLS => {
            let meaning = "the database is used without";
            return optional(settings.text(known).map(|it| text(&it)), meaning);
        }
        settings::RESP => address(config.resp),
        settings::RESP_CLUSTER => address(config.resp_cluster),
        settings::HTTP => address(config.http),
        settings::SITE => {
            let meaning = format!("as the data folder says; {SITE_DEFAULT} for a new one");
            return optional(config.site.map(|site| number(site.into())), &meaning);
        }
        // Read again as a value it would open the port of a site that is alone.
        settings::LINK if !config.link_given => {
            let default = address(config.link);
            return Shown::Unset(format!("{default}, opened if there are other sites"));
        }
        settings::LINK => address(config.link),
        settings::ADVERTISE => {
            let meaning = "this node is reached where it listens";
            return optional(config.advertise.as_ref().map(|host| text(host)), meaning);
        }
        settings::TAKEOVER_AFTER => text(&format_duration(config.takeover_after)),
        settings::PEERS => {
            let meaning = "the data folder says who else belongs to the cluster; nobody for a new one";
            return optional(settings.text(known).map(|peers| text(&peers)), meaning);
        }
        settings::JOIN => {
            let meaning = "no cluster is joined";
            return optional(settings.text(known).map(|join| text(&join)), meaning);
        }
        settings::TIER => number(config.tier.into()),
        settings::PARENTS => {
            let meaning = "a site hands over to nobody";
            return optional(settings.text(known).map(|parents| text(&parents)), meaning);
        }
        settings::CLUSTER => {
            let meaning = format!("as the data folder says; {CLUSTER_DEFAULT} for a new one");
            return optional(config.cluster.as_ref().map(|name| text(name)), &meaning);
        }
        settings::DURABILITY => text(&config.durability),
        settings::MEMORY => text(&format_bytes(config.memory_bytes)),
        settings::WORKERS => number(config.workers),
        settings::SHARDS => {
            let meaning = format!("as the data folder has; {SHARDS_DEFAULT} for a new one");
            return optional(config.shards.map(|shards| number(shards.into())), &meaning);
        }
        settings::IDMP_WINDOW => text(&format_duration(config.idmp_window)),
        settings::IDMP_MODE => text(&config.idmp_mode),
        settings::IDMP_FPP => Value::Float(config.idmp_fpp),
        settings::STORAGE_DEADLINE => text(&format_duration(config.storage_deadline)),
        settings::EDGE_TTL => text(&format_duration(config.edge_ttl)),
        settings::MAX_CLIENTS => number(config.max_clients),
        settings::TCP_KEEPALIVE => Value::Integer(
            config.tcp_keepalive.map_or(0, |it| i64::try_from(it.as_secs()).unwrap_or(i64::MAX)),
        ),
        settings::REQUIREPASS | settings::STORAGE_PASSWORD if settings.text(known).is_some() => {
            return Shown::Masked;
        }
        settings::STORAGE_PASSWORD => return Shown::Unset("the database is used without".to_owned()),
        settings::REQUIREPASS => {
            return Shown::Unset("clients need no password for the user default".to_owned());
        }
        settings::ACL_FILE => {
            return optional(settings.text(known).map(|path| text(&path)), "there is no file of users");
        }
        settings::INSECURE => Value::Boolean(config.insecure),
        settings::LOG_LEVEL => text(&config.log_level),
        settings::LOG_FORMAT => text(&config.log_format),
        _ => return Shown::Unset("it is not shown".to_owned()),
    };
    Shown::Value(value)
}
