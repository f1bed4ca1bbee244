//! Finds the installed libckpt and libckpt_files by pkg-config and tells cargo how to link them.
//!
//! `CKPT_STATIC=1` or `PKG_CONFIG_ALL_STATIC=1` links their archives; the linker chooses how it links what these need.
//! Dependents see `DEP_CKPT_INCLUDE`, `DEP_CKPT_ROOT` and `DEP_CKPT_VERSION`.

use std::path::Path;

fn main() {
    // pkg-config ignores PKG_CONFIG_ALL_STATIC once it is told whether to link statically.
    for name in ["CKPT_STATIC", "PKG_CONFIG_ALL_STATIC", "DOCS_RS"] {
        println!("cargo:rerun-if-env-changed={name}");
    }
    println!("cargo:rustc-check-cfg=cfg(ckpt_static)");
    if std::env::var_os("DOCS_RS").is_some() {
        return; // documentation needs no library
    }
    let wanted = |name: &str| std::env::var(name).is_ok_and(|value| value != "0");
    let is_static = wanted("CKPT_STATIC") || wanted("PKG_CONFIG_ALL_STATIC");
    // Before 1.0 a minor version may change the ABI. The crate pkg-config never links a library under /usr statically,
    // so this prints the lines for cargo itself.
    let mut config = pkg_config::Config::new();
    config.range_version("0.1.0".."0.2.0").statik(is_static).cargo_metadata(false);
    let found = config.probe("ckpt-files"); // which requires ckpt
    let library = match found {
        Ok(library) => library,
        Err(error) => {
            eprintln!("{error}\n\nInstall libckpt 0.1, or set PKG_CONFIG_PATH to the folder of its ckpt-files.pc.");
            std::process::exit(1);
        }
    };
    for folder in &library.link_paths {
        println!("cargo:rustc-link-search=native={}", folder.display());
        if is_static {
            for archive in ["libckpt.a", "libckpt_files.a"] {
                rerun_if_changed(&folder.join(archive)); // its objects are copied into the program
            }
        }
    }
    for name in &library.libs {
        let kind = if is_static && (name == "ckpt" || name == "ckpt_files") { "static" } else { "dylib" };
        println!("cargo:rustc-link-lib={kind}={name}");
    }
    if is_static {
        println!("cargo:rustc-cfg=ckpt_static");
    }
    let include = library.include_paths.first().map_or(Path::new("/usr/include"), |path| path.as_path());
    let include = include.canonicalize().unwrap_or_else(|_| include.to_owned());
    println!("cargo:rustc-env=CKPT_INCLUDE={}", include.display());
    for header in ["ckpt.h", "ckpt_maintain.h", "ckpt_table.h", "ckpt_tree.h", "ckpt_file.h"] {
        rerun_if_changed(&include.join(header));
    }
    println!("cargo:include={}", include.display());
    println!("cargo:root={}", include.parent().unwrap_or(&include).display());
    println!("cargo:version={}", library.version);
}

/// Only for a file that exists: cargo takes a missing one as changed each time.
fn rerun_if_changed(file: &Path) {
    if file.exists() {
        println!("cargo:rerun-if-changed={}", file.display());
    }
}
