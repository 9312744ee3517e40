//! The product as a whole: real runs of the bundled model, and what their records say.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

struct Run {
    folder: tempfile::TempDir,
    output: Output,
}

impl Run {
    fn new(arguments: &[&str]) -> Run {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let output = vramscope()
            .arg("run")
            .arg("--trace")
            .arg(folder.path().join("run.vtrace"))
            .args(arguments)
            .output()
            .expect("the program starts");
        Run { folder, output }
    }

    fn trace(&self) -> PathBuf {
        self.folder.path().join("run.vtrace")
    }

    fn code(&self) -> Option<i32> {
        self.output.status.code()
    }

    fn out(&self) -> String {
        String::from_utf8_lossy(&self.output.stdout).into_owned()
    }

    fn err(&self) -> String {
        String::from_utf8_lossy(&self.output.stderr).into_owned()
    }

    /// Diagnosis codes and the exit code.
    fn diagnosis(&self) -> (Vec<String>, Option<i32>) {
        let output = vramscope()
            .args(["diagnose", "--json"])
            .arg(self.trace())
            .output()
            .expect("it starts");
        let value: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let findings = value["findings"].as_array().expect("a list");
        let codes = findings
            .iter()
            .map(|finding| finding["code"].as_str().unwrap_or("").to_owned());
        (codes.collect(), output.status.code())
    }
}

fn vramscope() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vramscope"));
    command.env_remove("RUST_LOG").env_remove("VRAMSCOPE_LOG");
    command
}

fn verify(trace: &Path) -> Option<i32> {
    let output = vramscope().args(["trace", "verify"]).arg(trace).output();
    output.expect("it starts").status.code()
}

fn digest(out: &str) -> &str {
    let (_, rest) = out.split_once("ledger digest ").expect("a digest is printed");
    &rest[..16]
}

fn texts(out: &str) -> &str {
    out.split("DEVICES").next().unwrap_or("")
}

fn assert_all(text: &str, words: &[&str]) {
    for word in words {
        assert!(text.contains(word), "`{word}` is missing in:\n{text}");
    }
}

#[test]
fn a_healthy_run_has_no_findings_and_a_whole_record() {
    let run = Run::new(&[]);
    assert_eq!(run.code(), Some(0), "{}\n{}", run.out(), run.err());
    assert_all(
        &run.out(),
        &[
            "FINDINGS\nnone",
            "purge#1 profile full: complete",
            "0 anomalies",
            "nvfp4_gemm_emulated",
        ],
    );
    assert_all(
        &run.err(),
        &[
            "purge#1 2c cleared nvfp4_runtime.act_q_pool entries=",
            "purge#1 end outcome=complete",
        ],
    );
    assert_eq!(verify(&run.trace()), Some(0));
    assert_eq!(run.diagnosis(), (Vec::new(), Some(0)));
}

#[test]
fn two_runs_give_the_same_text_and_the_same_digest() {
    for options in [&[][..], &["--no-graph", "--precision", "int8", "--convrot", "64"]] {
        let (a, b) = (Run::new(options), Run::new(options));
        assert_eq!(texts(&a.out()), texts(&b.out()));
        assert_eq!(digest(&a.out()), digest(&b.out()));
    }
}

#[test]
fn kitchen_only_stops_before_the_launch_and_names_the_culprit() {
    let run = Run::new(&["--purge", "kitchen-only"]);
    assert_eq!(run.code(), Some(1), "{}", run.err());
    assert_all(
        &run.err(),
        &[
            "StaleBuffer: nvfp4_quantize argument `qx` lost its storage; nothing was launched",
            "generation 0, now 1; 2048 B needed on host:0, 0 B found",
            "nvfp4_runtime.act_q_pool key rows_pad=32 cols_pad=128 device=0 stream=0",
            "purge#1 stage 3",
            "cleared by stage 2c of that purge, which cleared only",
            "gemm.cublas_workspaces",
            "allocated by nvfp4_runtime.act_q_pool",
            "next step",
        ],
    );
    assert_eq!(verify(&run.trace()), Some(0));
    let (codes, code) = run.diagnosis();
    assert_eq!((codes[0].as_str(), code), ("STALE_POOL_ENTRY", Some(1)));
}

#[test]
fn a_graph_over_killed_buffers_is_refused() {
    let run = Run::new(&["--purge", "no-owner-caches"]);
    assert_eq!(run.code(), Some(1), "{}", run.err());
    assert_all(
        &run.err(),
        &[
            "StaleGraph: graph#0 `forward rows_pad=32`",
            "node 0, embed_bf16.table",
            "purge#1 stage 3",
            "stage 2c of that purge, which did not run",
        ],
    );
    assert_eq!(run.diagnosis().0[0], "STALE_GRAPH");
    let without = Run::new(&["--purge", "no-owner-caches", "--no-graph"]);
    assert_all(&without.err(), &["StaleBuffer: nvfp4_quantize argument `qx`"]);
}

#[test]
fn a_threshold_between_codes_and_scales_tears_an_entry() {
    let run = Run::new(&["--purge", "kitchen-only", "--kill-threshold", "1536"]);
    assert_eq!(run.code(), Some(1), "{}", run.err());
    assert_all(
        &run.err(),
        &["TornEntry: nvfp4_quantize", "qx 2048 B dead, scales 1024 B alive"],
    );
    assert_eq!(run.diagnosis().0[0], "TORN_POOL_ENTRY");
}

#[test]
fn rebuilding_heals_what_a_bad_purge_left() {
    let healthy = Run::new(&[]);
    for purge in ["kitchen-only", "no-owner-caches"] {
        let run = Run::new(&["--purge", purge, "--stale", "rebuild"]);
        assert_eq!(texts(&run.out()), texts(&healthy.out()), "{purge}");
        assert_all(&run.out(), &["healed: "]);
    }
}

#[test]
fn every_precision_runs_with_and_without_graphs_to_the_same_text() {
    for options in [
        &["--precision", "f32"][..],
        &["--precision", "bf16"],
        &["--precision", "int8"],
        &["--precision", "nvfp4"],
        &["--precision", "nvfp4", "--convrot", "64"],
    ] {
        let with = Run::new(options);
        let without = Run::new(&[options, &["--no-graph"]].concat());
        assert_eq!(
            (with.code(), without.code()),
            (Some(0), Some(0)),
            "{options:?} {}",
            with.err()
        );
        assert_eq!(texts(&with.out()), texts(&without.out()), "{options:?}");
    }
}

#[test]
fn a_kept_model_makes_a_selective_purge_a_no_op() {
    let run = Run::new(&["--purge", "selective", "--keep", "tiny-llama"]);
    assert_eq!(run.code(), Some(0), "{}", run.err());
    assert_all(
        &run.err(),
        &["purge#1 end outcome=noop claimed=0 device=0 survivors=0"],
    );
    let ejected = Run::new(&["--purge", "selective"]);
    assert_all(
        &ejected.err(),
        &[
            "purge#1 1 cleared model.weights",
            "purge#1 1 cleared model.kv_cache",
        ],
    );
    assert!(!ejected.err().contains("act_q_pool entries"), "{}", ejected.err());
}

#[test]
fn a_purge_that_gives_less_back_than_it_claims_is_a_finding() {
    let run = Run::new(&["--purge", "soft"]);
    assert_eq!(run.code(), Some(1), "{}", run.out());
    assert_eq!(run.diagnosis().0, ["CACHED_NOT_RETURNED"]);
}

#[test]
fn a_ring_keeps_a_run_in_bounds() {
    let run = Run::new(&["--no-graph", "--trace-limit", "256kb"]);
    assert_eq!(run.code(), Some(0), "{}\n{}", run.out(), run.err());
    let size = std::fs::metadata(run.trace()).expect("the trace is there").len();
    assert!(size <= 256 << 10, "{size}");
    assert_all(&run.out(), &["older ones were dropped", "0 anomalies"]);
}

#[test]
fn what_a_run_cannot_do_is_one_clear_error_and_exit_2() {
    let cases: &[(&[&str], &[&str])] = &[
        (
            &["--vram", "1mb"],
            &["out of memory on host:0", "model.", "needs", "1.00 MiB free"],
        ),
        (&["--precision", "fp3"], &["fp3", "f32, bf16, int8, nvfp4"]),
        (
            &["--convrot", "256"],
            &["rotation group 256 does not divide hidden size 128"],
        ),
        (
            &["--precision", "f32", "--convrot", "64"],
            &["rotation needs precision int8 or nvfp4"],
        ),
        (&["--purge", "everything"], &["`everything` is no purge"]),
        (&["--device", "cuda:0"], &["cuda:0"]),
        (&["--model", "/nowhere/at/all"], &["/nowhere/at/all/config.json"]),
        (&["--tokens", "9999"], &["context of 512"]),
        (&["--context", "513"], &["context of 513", "512 positions"]),
        (&["--keep", "other"], &["--keep other", "tiny-llama"]),
        (
            &["--trace-limit", "1kb"],
            &["trace limit is 1024 bytes, the least is 131072 bytes"],
        ),
        (&["--vram", "99999999tb"], &["2^64"]),
        (&["--vram", "8000000tb"], &["address space"]),
    ];
    for (options, words) in cases {
        let run = Run::new(options);
        assert_eq!(run.code(), Some(2), "{options:?}\n{}", run.err());
        assert_all(&run.err(), words);
        assert!(!run.err().contains("panicked"), "{}", run.err());
    }
}

#[test]
fn an_unwritable_trace_is_refused_before_anything_runs() {
    let output = vramscope()
        .args(["run", "--trace", "/nowhere/at/all.vtrace"])
        .output()
        .expect("it starts");
    assert_eq!(output.status.code(), Some(2));
    assert_all(
        &String::from_utf8_lossy(&output.stderr),
        &["failed to create /nowhere/at/all.vtrace"],
    );
}

#[test]
fn json_and_log_lines_are_for_machines() {
    let run = Run::new(&["--json", "--log", "json", "--tokens", "2"]);
    assert_eq!(run.code(), Some(0), "{}", run.err());
    let value: serde_json::Value = serde_json::from_str(&run.out()).expect("JSON on stdout");
    assert_eq!(value["schema_version"], 1);
    assert_eq!(value["answers"].as_array().map(Vec::len), Some(2));
    let lines = run.err();
    let spans: Vec<serde_json::Value> = lines
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect();
    assert_eq!(
        spans.len(),
        lines.lines().count(),
        "a line is not JSON in:\n{lines}"
    );
    let named = |name: &str| spans.iter().any(|line| line["span"]["name"] == name);
    for name in [
        "inference.prompt",
        "inference.prefill",
        "inference.decode",
        "purge",
        "purge.stage",
    ] {
        assert!(named(name), "no span {name} in:\n{lines}");
    }
}

#[test]
fn a_filter_opens_the_spans_of_single_launches() {
    let output = vramscope()
        .args([
            "run",
            "--tokens",
            "1",
            "--no-graph",
            "--prompt",
            "To be",
            "--log",
            "json",
        ])
        .arg("--trace")
        .arg(
            tempfile::tempdir()
                .expect("a folder")
                .path()
                .with_extension("vtrace"),
        )
        .env("VRAMSCOPE_LOG", "vramscope=trace")
        .output()
        .expect("it starts");
    let lines = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_all(
        &lines,
        &[
            "\"kernel.launch\"",
            "\"buffer.allocate\"",
            "\"pool.take\"",
            "\"memcpy\"",
            "\"model.layer\"",
            "\"kernel.name\":\"nvfp4_quantize\"",
            "\"vramscope.seq\":",
        ],
    );
}

/// The shell lets the write fail instead of the signal ending the program.
#[cfg(unix)]
#[test]
fn a_full_disk_degrades_the_record_and_not_the_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let script = "trap '' XFSZ; ulimit -f 1024; exec \"$0\" run --no-graph --tokens 400 --trace \"$1\"";
    let output = Command::new("bash")
        .args(["-c", script, env!("CARGO_BIN_EXE_vramscope")])
        .arg(folder.path().join("run.vtrace"))
        .output()
        .expect("bash starts");
    let out = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_all(&out, &["--- prompt 2", "the recording is degraded", "truncated"]);
    assert_eq!(
        output.status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert_eq!(verify(&folder.path().join("run.vtrace")), Some(1));
}

/// Nothing is killed, but owners let go of what the graphs baked: replays over it would compute nonsense.
#[test]
fn graphs_over_released_buffers_are_captured_again() {
    let healthy = Run::new(&[]);
    for stale in ["error", "rebuild"] {
        let run = Run::new(&[
            "--purge",
            "no-owner-caches",
            "--kill-threshold",
            "1mb",
            "--stale",
            stale,
        ]);
        assert_eq!(texts(&run.out()), texts(&healthy.out()), "{}", run.err());
    }
}

/// Whoever reads has seen enough, or the disk behind standard output is full: the record is whole in both cases.
#[cfg(unix)]
#[test]
fn a_closed_output_is_no_panic() {
    let folder = tempfile::tempdir().expect("a folder");
    let scripts = [
        "\"$0\" run --trace \"$1\" | true",
        "\"$0\" run --trace \"$1\" > /dev/full 2> /dev/full",
    ];
    for (number, script) in scripts.iter().enumerate() {
        let trace = folder.path().join(format!("{number}.vtrace"));
        let output = Command::new("bash")
            .args(["-c", script, env!("CARGO_BIN_EXE_vramscope")])
            .arg(&trace)
            .output()
            .expect("bash starts");
        let err = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!err.contains("panicked"), "{err}");
        assert_eq!(verify(&trace), Some(0));
    }
}

#[cfg(unix)]
#[test]
fn a_pipe_is_no_trace_and_is_not_waited_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let pipe = folder.path().join("pipe");
    let made = Command::new("mkfifo").arg(&pipe).status();
    assert!(made.expect("mkfifo starts").success());
    for command in ["report", "diagnose"] {
        let output = vramscope().arg(command).arg(&pipe).output().expect("it starts");
        assert_eq!(output.status.code(), Some(2));
        assert_all(&String::from_utf8_lossy(&output.stderr), &["not a regular file"]);
    }
}

#[test]
fn an_incident_under_json_logs_is_json_to_its_last_line() {
    let run = Run::new(&["--purge", "kitchen-only", "--log", "json"]);
    assert_eq!(run.code(), Some(1), "{}", run.err());
    let lines: Vec<serde_json::Value> = run
        .err()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("a line is not JSON: {line}")))
        .collect();
    let last = lines.last().expect("the error is said");
    assert_eq!(last["level"], "ERROR");
    let said = last["fields"]["message"].as_str().unwrap_or("");
    assert!(
        said.starts_with("StaleBuffer: nvfp4_quantize argument `qx`"),
        "{said}"
    );
}

#[cfg(unix)]
#[test]
fn a_killed_run_leaves_a_readable_record() {
    use std::os::unix::process::ExitStatusExt;
    use std::time::Duration;
    const KILLS: u64 = 20;
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut truncated = 0;
    for kill in 0..KILLS {
        let trace = folder.path().join(format!("{kill}.vtrace"));
        let mut child = vramscope()
            .args(["run", "--tokens", "60", "--trace"])
            .arg(&trace)
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .expect("the program starts");
        let begun = || std::fs::metadata(&trace).is_ok_and(|about| about.len() > 0);
        while !begun() && child.try_wait().expect("the child is ours").is_none() {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_millis(kill * 8));
        child.kill().expect("the child is ours");
        let killed = child.wait().expect("it ends").signal() == Some(9);
        let code = verify(&trace);
        // A kill after the trailer finds a whole file; only a kill makes one that is not.
        let fits = code == Some(0) || (killed && code == Some(1));
        assert!(fits, "kill {kill}: verify gives {code:?}, killed {killed}");
        truncated += u64::from(code == Some(1));
        let report = vramscope().arg("report").arg(&trace).output().expect("it starts");
        assert_eq!(
            report.status.code(),
            code,
            "kill {kill}: report and verify disagree"
        );
    }
    assert!(truncated > 0, "no kill of {KILLS} came while the run went on");
}
