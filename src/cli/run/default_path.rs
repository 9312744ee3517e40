//! Where a trace goes when nobody says.

use std::path::PathBuf;

use crate::base::clock::unix_now;

/// A new file's path in this user's folder for state, or in the folder for temporary files; the folder is made.
///
/// # Errors
/// The folder can't be made.
pub(super) fn trace_path() -> Result<PathBuf, String> {
    let variable = |name| {
        std::env::var_os(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    let state = variable("XDG_STATE_HOME")
        .or_else(|| variable("HOME").map(|home| home.join(".local").join("state")))
        .or_else(|| variable("LOCALAPPDATA"))
        .unwrap_or_else(std::env::temp_dir);
    let folder = state.join("vramscope");
    std::fs::create_dir_all(&folder).map_err(|error| {
        format!(
            "failed to make {}: {error}; name a file with --trace",
            folder.display()
        )
    })?;
    let seconds = unix_now().whole_seconds();
    Ok(folder.join(format!("run-{seconds}-{}.vtrace", std::process::id())))
}
