//! Generates messages, clients and servers from the `.proto` files, without protoc.

use std::error::Error;
use std::path::PathBuf;

fn main() -> Result<(), Box<dyn Error>> {
    let out = PathBuf::from(std::env::var_os("OUT_DIR").ok_or("cargo names no OUT_DIR")?);
    let files = ["rpc_service.proto", "toolkeep/node/v1/node.proto"];
    let mut compiler = protox::Compiler::new(["proto"])?;
    compiler.include_imports(true).include_source_info(true).open_files(files)?;
    std::fs::write(out.join("descriptors.bin"), compiler.encode_file_descriptor_set())?;
    tonic_prost_build::configure()
        .bytes(".")
        .btree_map(".")
        .compile_fds(compiler.file_descriptor_set())?;
    Ok(())
}
