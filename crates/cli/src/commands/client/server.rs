//! The server that is asked, and what it answers.

use crate::failure::Failure;
use base64::{Engine, engine::general_purpose::STANDARD};
use percent_encoding::{NON_ALPHANUMERIC, percent_encode};
use serde_json::Value;
use std::{ffi::OsStr, io, time::Duration};
use ureq::{Agent, Body, http};

/// How long a connection may take to be made.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(5);
/// How long an answer may take.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(30);

/// Which server to ask, as whom, and how to show its answers.
#[derive(clap::Args)]
pub(crate) struct Server {
    /// The server
    #[arg(
        long,
        alias = "url",
        env = "QUIPU_SERVER",
        value_name = "URL",
        default_value = "http://127.0.0.1:7380"
    )]
    server: String,
    #[command(flatten)]
    login: Login,
    /// Print the server's answers as JSON, one in each line
    #[arg(long)]
    pub(super) json: bool,
}

// As whom. Not a doc comment: clap would show it instead of those of the commands.
#[derive(Clone, clap::Args)]
pub(in crate::commands) struct Login {
    /// The user, if the server has users
    #[arg(long, env = "QUIPU_USER", value_name = "NAME", default_value = "default")]
    user: String,
    /// The user's password. Better in the environment: other users of the machine see flags
    #[arg(long, env = "QUIPU_PASSWORD", value_name = "PASSWORD", hide_env_values = true)]
    password: Option<String>,
}

impl Login {
    /// The user and the password, if there is one.
    pub(in crate::commands) fn credentials(&self) -> Option<(&str, &str)> {
        Some((&self.user, self.password.as_deref()?))
    }
}

/// Why there is no good answer.
#[derive(Debug)]
pub(super) enum Trouble {
    /// It was not sent: a flag is wrong.
    Usage(Failure),
    /// There is no server at this address.
    NoServer(String),
    /// The connection broke, or there was no answer in time: whether anything was done is not known.
    NoAnswer(String),
    /// The server has refused it.
    Refused {
        status: u16,
        /// The last part of the problem's type.
        kind: String,
        detail: String,
    },
}

impl From<Trouble> for Failure {
    fn from(trouble: Trouble) -> Self {
        match trouble {
            Trouble::Usage(failure) => failure,
            Trouble::NoServer(what) | Trouble::NoAnswer(what) => Failure::failed(what),
            Trouble::Refused { detail, .. } => Failure::failed(detail),
        }
    }
}

/// A request to the server.
pub(super) struct Ask<'a> {
    pub(super) method: http::Method,
    /// With what follows it, behind `/v1`.
    pub(super) path: String,
    pub(super) body: Option<&'a Value>,
    pub(super) id: Option<&'a str>,
    /// How long the server may wait for other sites before it answers.
    pub(super) sites_time: Duration,
}

impl Ask<'_> {
    pub(super) fn get(path: String) -> Self {
        Self { method: http::Method::GET, path, body: None, id: None, sites_time: Duration::ZERO }
    }
}

/// What follows `/v1` for a key.
pub(super) fn path(key: &OsStr) -> String {
    format!("/counters/{}", percent_encode(key.as_encoded_bytes(), NON_ALPHANUMERIC))
}

impl Server {
    /// The server at this address, for programs.
    pub(super) fn at(server: &str, login: &Login) -> Self {
        Self { server: server.to_owned(), login: login.clone(), json: true }
    }

    /// Numbers are taken as text, which is exact however large they are; for JSON as the server writes them.
    pub(super) fn values(&self) -> &'static str {
        if self.json { "values=number" } else { "values=string" }
    }

    /// Asks, and gives the answer as text.
    pub(super) fn ask(&self, ask: &Ask<'_>) -> Result<String, Trouble> {
        let mut response = self.send(ask, Some(ANSWER_TIME_MAX + ask.sites_time))?;
        let text = response.body_mut().read_to_string().map_err(|error| self.trouble(&error))?;
        self.accept(&response, &text)?;
        Ok(text)
    }

    /// Asks for an answer without an end.
    pub(super) fn stream(&self, ask: &Ask<'_>) -> Result<impl io::Read, Trouble> {
        let mut response = self.send(ask, None)?;
        if response.status().as_u16() >= 400 {
            let text = response.body_mut().read_to_string().map_err(|error| self.trouble(&error))?;
            self.accept(&response, &text)?;
        }
        Ok(response.into_body().into_reader())
    }

    fn send(&self, ask: &Ask<'_>, time_max: Option<Duration>) -> Result<http::Response<Body>, Trouble> {
        let agent: Agent = Agent::config_builder()
            .http_status_as_error(false)
            .proxy(None)
            .max_redirects(0)
            .timeout_connect(Some(CONNECT_TIME_MAX))
            .timeout_global(time_max)
            .build()
            .into();
        let url = format!("{}/v1{}", self.checked_url()?, ask.path);
        let mut request = http::Request::builder().method(ask.method.clone()).uri(url);
        if let Some(password) = &self.login.password {
            let credentials = STANDARD.encode(format!("{}:{password}", self.login.user));
            request = request.header("authorization", format!("Basic {credentials}"));
        }
        if let Some(id) = ask.id {
            request = request.header("idempotency-key", id);
        }
        let sent = match ask.body {
            Some(body) => {
                let request = request.header("content-type", "application/json").body(body.to_string());
                agent.run(request.map_err(|error| self.bad(&error))?)
            }
            None => agent.run(request.body(()).map_err(|error| self.bad(&error))?),
        };
        sent.map_err(|error| self.trouble(&error))
    }

    fn checked_url(&self) -> Result<&str, Trouble> {
        let problem = match &self.server {
            server if server.starts_with("http://") => return Ok(server.trim_end_matches('/')),
            server if server.starts_with("https://") => {
                "needs TLS, which is not known here; give an http:// address"
            }
            _ => "is no server; give a URL such as http://127.0.0.1:7380",
        };
        let problem = format!("{:?} {problem}", self.server);
        Err(Trouble::Usage(Failure::Usage { flag: "--server", problem }))
    }

    fn bad(&self, error: &http::Error) -> Trouble {
        let problem =
            format!("{:?} cannot be asked: {error}; give a URL such as http://127.0.0.1:7380", self.server);
        Trouble::Usage(Failure::Usage { flag: "--server", problem })
    }

    fn trouble(&self, error: &ureq::Error) -> Trouble {
        let server = &self.server;
        let refused = match error {
            ureq::Error::Io(error) => error.kind() == io::ErrorKind::ConnectionRefused,
            ureq::Error::ConnectionFailed | ureq::Error::HostNotFound => true,
            _ => false,
        };
        if refused {
            let remedy = "start one with `quipu serve`, or name another with --server";
            return Trouble::NoServer(format!("there is no server at {server} ({error}); {remedy}"));
        }
        Trouble::NoAnswer(format!("{server} did not answer: {error}"))
    }

    /// A problem is an error that tells what it is; anything else that is wrong is told as it came.
    fn accept(&self, response: &http::Response<Body>, text: &str) -> Result<(), Trouble> {
        let status = response.status().as_u16();
        if status < 300 {
            return Ok(());
        }
        let problem: Value = serde_json::from_str(text).unwrap_or_default();
        let kind =
            problem["type"].as_str().and_then(|it| it.rsplit(':').next()).unwrap_or_default().to_owned();
        let detail = match problem["detail"].as_str() {
            Some(detail) => detail.to_owned(),
            None => format!("{} answered with the status {status}; is it a Quipu server?", self.server),
        };
        Err(Trouble::Refused { status, kind, detail })
    }
}

/// An answer in JSON.
pub(in crate::commands) fn parse(text: &str) -> Result<Value, Failure> {
    serde_json::from_str(text).map_err(|error| Failure::failed(format!("the answer is not JSON: {error}")))
}

/// A member of an answer as text.
pub(super) fn member<'a>(answer: &'a Value, name: &str) -> Result<&'a str, Failure> {
    answer[name].as_str().ok_or_else(|| Failure::failed(format!("the answer has no {name:?}: {answer}")))
}

/// The key that an answer names.
pub(in crate::commands) fn key(answer: &Value) -> Result<Vec<u8>, Failure> {
    match answer["key"].as_str() {
        Some(key) => Ok(key.as_bytes().to_vec()),
        None => STANDARD
            .decode(member(answer, "key_base64")?)
            .map_err(|error| Failure::failed(format!("the answer has a bad key: {error}"))),
    }
}
