//! Java and the jars of Cassandra, where they are installed or can be.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// What is fetched.
const VERSION: &str = "5.0.9";
const POM: &str = include_str!("pom.xml");
/// The agent by which Cassandra measures its objects.
const AGENT: &str = "jamm-";
/// The versions of Java that this Cassandra runs on.
const JAVA_VERSIONS: [&str; 2] = ["17.", "11."];

/// Packages that Cassandra reaches into, as its own `jvm17-server.options` lists them.
const EXPORTS: [&str; 9] = [
    "java.base/jdk.internal.misc",
    "java.base/jdk.internal.ref",
    "java.base/sun.nio.ch",
    "java.base/java.lang.ref",
    "java.management.rmi/com.sun.jmx.remote.internal.rmi",
    "java.rmi/sun.rmi.registry",
    "java.rmi/sun.rmi.server",
    "java.sql/java.sql",
    "jdk.unsupported/sun.misc",
];
const OPENS: [&str; 18] = [
    "java.base/java.io",
    "java.base/java.lang",
    "java.base/java.lang.module",
    "java.base/java.lang.reflect",
    "java.base/java.math",
    "java.base/java.net",
    "java.base/java.nio",
    "java.base/java.util",
    "java.base/java.util.concurrent",
    "java.base/java.util.concurrent.atomic",
    "java.base/jdk.internal.loader",
    "java.base/jdk.internal.math",
    "java.base/jdk.internal.module",
    "java.base/jdk.internal.ref",
    "java.base/jdk.internal.reflect",
    "java.base/jdk.internal.util.jar",
    "java.base/sun.nio.ch",
    "jdk.management/com.sun.management.internal",
];

/// What it takes to run Cassandra.
#[derive(Debug, Clone)]
pub struct Program {
    java: PathBuf,
    jars: PathBuf,
    agent: PathBuf,
}

impl Program {
    /// Finds Java, and Cassandra in `$QUIPU_CACHE` or the user's cache folder; fetches it from Maven's repository if it
    /// is not there. As root and where `CI` or `QUIPU_INSTALL` is set, Java and Maven are installed if they are missing.
    /// The error says what is missing.
    pub fn find() -> Result<Self, String> {
        let java = find_java().or_else(|missing| {
            install(&missing, "openjdk-17-jre-headless")?;
            find_java()
        })?;
        let jars = cache()?.join(format!("cassandra-{VERSION}"));
        if !jars.is_dir() {
            fetch(&jars)?;
        }
        let agent = fs::read_dir(&jars).map_err(|error| format!("{}: {error}", jars.display()))?;
        let agent = agent
            .filter_map(Result::ok)
            .map(|entry| entry.path())
            .find(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(AGENT)));
        let agent = agent.ok_or_else(|| format!("{} has no {AGENT}*.jar; remove it", jars.display()))?;
        Ok(Self { java, jars, agent })
    }

    /// The command that runs a node with the settings of a folder, without its data folders and addresses.
    pub(super) fn arguments(&self, folder: &Path) -> Vec<String> {
        let Self { java, jars, agent } = self;
        let folder = folder.display();
        let mut arguments = vec![java.display().to_string()];
        for package in EXPORTS {
            arguments.extend(["--add-exports".to_owned(), format!("{package}=ALL-UNNAMED")]);
        }
        for package in OPENS {
            arguments.extend(["--add-opens".to_owned(), format!("{package}=ALL-UNNAMED")]);
        }
        arguments.extend([
            format!("-javaagent:{}", agent.display()),
            // Quick to start and small, rather than fast: there may be three on one small machine.
            "-Xms256m".to_owned(),
            "-Xmx320m".to_owned(),
            "-XX:+UseSerialGC".to_owned(),
            "-XX:TieredStopAtLevel=1".to_owned(),
            format!("-Djava.io.tmpdir={folder}"),
            format!("-Dcassandra.config=file://{folder}/cassandra.yaml"),
            format!("-Dlogback.configurationFile=file://{folder}/logback.xml"),
            format!("-Dcassandra.storagedir={folder}"),
            "-Dcassandra.skip_wait_for_gossip_to_settle=0".to_owned(),
            "-Dcassandra.ring_delay_ms=2000".to_owned(),
            "-Dcassandra.superuser_setup_delay_ms=0".to_owned(),
            "-cp".to_owned(),
            format!("{}/*", jars.display()),
            "org.apache.cassandra.service.CassandraDaemon".to_owned(),
        ]);
        arguments
    }
}

fn find_java() -> Result<PathBuf, String> {
    let home = env::var_os("JAVA_HOME").map(|home| PathBuf::from(home).join("bin/java"));
    let installed = fs::read_dir("/usr/lib/jvm").into_iter().flatten().filter_map(Result::ok);
    let installed = installed.map(|entry| entry.path().join("bin/java"));
    let candidates = home.into_iter().chain(find("java").ok()).chain(installed);
    let fits = |java: &PathBuf| {
        let said = Command::new(java).arg("-version").stdin(Stdio::null()).output();
        said.is_ok_and(|said| {
            let said = String::from_utf8_lossy(&said.stderr).into_owned();
            JAVA_VERSIONS.iter().any(|version| said.contains(&format!("version \"{version}")))
        })
    };
    candidates.filter(|java| java.is_file()).find(fits).ok_or_else(|| "Java 17 is not installed".to_owned())
}

fn find(program: &str) -> Result<PathBuf, String> {
    let paths = env::var_os("PATH").unwrap_or_default();
    let mut candidates = env::split_paths(&paths).map(|folder| folder.join(program));
    candidates.find(|path| path.is_file()).ok_or_else(|| format!("{program} is not installed"))
}

fn install(missing: &str, package: &str) -> Result<(), String> {
    if env::var_os("CI").is_none() && env::var_os("QUIPU_INSTALL").is_none() {
        return Err(format!("{missing}, and neither CI nor QUIPU_INSTALL is set, so nothing is installed"));
    }
    if output(Command::new("id").arg("-u"))?.trim() != "0" {
        return Err(format!("{missing}, and only root can install it: apt-get install {package}"));
    }
    let arguments = ["install", "-y", "--no-install-recommends", package];
    let install = || output(Command::new("apt-get").args(arguments));
    install().or_else(|_| output(Command::new("apt-get").arg("update")).and_then(|_| install())).map(drop)
}

/// Runs a program to its end. The error is all that it said.
fn output(command: &mut Command) -> Result<String, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output().map_err(|error| format!("{name}: {error}"))?;
    let (out, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if output.status.success() { Ok(out.into_owned()) } else { Err(format!("{name}: {out}{said}")) }
}

fn cache() -> Result<PathBuf, String> {
    let own = env::var_os("QUIPU_CACHE").map(PathBuf::from);
    let general = || env::var_os("XDG_CACHE_HOME").map(|cache| PathBuf::from(cache).join("quipu"));
    let home = || env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache/quipu"));
    let cache = own.or_else(general).or_else(home);
    cache.ok_or_else(|| "there is no folder to keep Cassandra in; set QUIPU_CACHE".to_owned())
}

/// Fetches Cassandra beside its place, and puts it there whole: others may be doing the same.
fn fetch(jars: &Path) -> Result<(), String> {
    let maven = find("mvn").or_else(|missing| {
        install(&missing, "maven")?;
        find("mvn")
    })?;
    let failed = |error: std::io::Error| format!("fetching Cassandra to {}: {error}", jars.display());
    let parent = jars.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(parent).map_err(failed)?;
    let fetched = tempfile::tempdir_in(parent).map_err(failed)?;
    let (pom, into) = (fetched.path().join("pom.xml"), fetched.path().join("jars"));
    fs::write(&pom, POM).map_err(failed)?;
    output(
        Command::new(maven)
            .args(["-q", "-B", "dependency:copy-dependencies", "-DincludeScope=runtime"])
            .arg(format!("-DoutputDirectory={}", into.display()))
            .arg("-f")
            .arg(&pom),
    )?;
    fs::rename(&into, jars).or_else(|error| if jars.is_dir() { Ok(()) } else { Err(failed(error)) })
}
