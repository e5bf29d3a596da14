//! Compiles the kernels for this machine's processor, with the emulator in place of CUDA.

fn main() {
    const KERNELS: &str = "../../worker/cuda/kernels";
    println!("cargo:rerun-if-changed={KERNELS}");
    println!("cargo:rerun-if-changed=emulator");
    cc::Build::new()
        .cpp(true)
        .std("c++17")
        .opt_level(2)
        // Only nvcc knows these pragmas.
        .flag("-Wno-unknown-pragmas")
        .include(KERNELS)
        .file("emulator/launches.cpp")
        .compile("cloakwork_emulated_kernels");
}
