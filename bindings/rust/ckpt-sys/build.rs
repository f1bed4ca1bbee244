//! Finds the installed libckpt and libckpt_files by pkg-config, tells cargo how to link them, and writes the raw layer
//! from api.json, which is installed with them. With the feature `vendored` it compiles the engine of `vendor/`.
//!
//! `CKPT_STATIC=1` or `PKG_CONFIG_ALL_STATIC=1` links their archives; the linker chooses how it links what these need.
//! Dependents see `DEP_CKPT_INCLUDE`, `DEP_CKPT_ROOT` and `DEP_CKPT_VERSION`.

use std::path::{Path, PathBuf};

mod generate;

fn main() {
    // pkg-config ignores PKG_CONFIG_ALL_STATIC once it is told whether to link statically.
    for name in ["CKPT_STATIC", "PKG_CONFIG_ALL_STATIC", "DOCS_RS"] {
        println!("cargo:rerun-if-env-changed={name}");
    }
    println!("cargo:rustc-check-cfg=cfg(ckpt_static, ckpt_vendored)");
    if std::env::var_os("DOCS_RS").is_some() {
        return write_raw_layer(&Path::new(VENDOR).join("api.json")); // documentation needs no library
    }
    #[cfg(feature = "vendored")]
    match Path::new(VENDOR).join("ckpt_amalgamation.cpp") {
        source if source.exists() => return compile_vendored(&source),
        source => println!(
            "cargo:warning={} is missing, so the installed libckpt is linked. `tools/package crates` makes crates that \
             have it.",
            source.display()
        ),
    }
    find_installed();
}

/// Folder with what `tools/amalgamate` makes. It is in the crate, not in the repository.
const VENDOR: &str = "vendor";

#[cfg(feature = "vendored")]
fn compile_vendored(source: &Path) {
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() != Ok("linux") {
        fail("The engine is for Linux.");
    }
    rerun_if_changed(source);
    // Also in a debug build: without optimization checksums are ten times slower.
    let mut build = cc::Build::new();
    build.cpp(true).std("c++20").opt_level(2).debug(false).warnings(false).flag("-fvisibility=hidden");
    build.file(source).compile("ckpt");
    println!("cargo:rustc-cfg=ckpt_static");
    println!("cargo:rustc-cfg=ckpt_vendored");
    write_raw_layer(&Path::new(VENDOR).join("api.json"));
    let vendor = Path::new(VENDOR).canonicalize().expect("the folder of the source is there");
    println!("cargo:include={}", vendor.display());
    println!("cargo:root={}", vendor.display());
    println!("cargo:version={}", env!("CARGO_PKG_VERSION"));
}

fn fail(text: &str) -> ! {
    eprintln!("{text}");
    std::process::exit(1)
}

fn find_installed() {
    let wanted = |name: &str| std::env::var(name).is_ok_and(|value| value != "0");
    let is_static = wanted("CKPT_STATIC") || wanted("PKG_CONFIG_ALL_STATIC");
    // Before 1.0 a minor version may change the ABI. The crate pkg-config never links a library under /usr statically,
    // so this prints the lines for cargo itself.
    let mut config = pkg_config::Config::new();
    config.range_version("0.1.0".."0.2.0").statik(is_static).cargo_metadata(false);
    let library = config.probe("ckpt-files").unwrap_or_else(|error| {
        fail(&format!(
            "{error}\n\nInstall libckpt 0.1 with libckpt_files, set PKG_CONFIG_PATH to where ckpt-files.pc is, or take \
             the feature `vendored`, which compiles the engine."
        ))
    }); // it requires ckpt
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
    write_raw_layer(Path::new(&pkg_config::get_variable("ckpt", "api").expect("ckpt.pc names api.json")));
    println!("cargo:include={}", include.display());
    println!("cargo:root={}", include.parent().unwrap_or(&include).display());
    println!("cargo:version={}", library.version);
}

fn write_raw_layer(api: &Path) {
    rerun_if_changed(api);
    let text = std::fs::read_to_string(api).unwrap_or_else(|error| panic!("{}: {error}", api.display()));
    let api = text.parse().unwrap_or_else(|error: tinyjson::JsonParseError| panic!("{}: {error}", api.display()));
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets it")).join("raw.rs");
    std::fs::write(&out, generate::generate(&api)).unwrap_or_else(|error| panic!("{}: {error}", out.display()));
}

/// Only for a file that exists: cargo takes a missing one as changed each time.
fn rerun_if_changed(file: &Path) {
    if file.exists() {
        println!("cargo:rerun-if-changed={}", file.display());
    }
}
