use super::*;

const LISTING: &str = "
target/release/program:     file format elf64-x86-64


Disassembly of section .text:

0000000000001000 <ours::run_avx512::<ours::Multiply<u64>>>:
    1000:\tpush   %rbp
    1001:\tvmovapd %zmm0,0x40(%rsp)
    1009:\tdata16 cs nopw 0x0(%rax,%rax,1)
    1010:\tvmovupd (%rsi),%zmm1
    1018:\tadd    $0x40,%rsi
    1020:\tvfmadd231pd 0x40(%rsp),%zmm1,%zmm2
    1028:\tcmp    %rsi,%rdx
    1030:\tjne    1010 <ours::run_avx512::<ours::Multiply<u64>>+0x10>
    1032:\tdec    %rcx
    1035:\tjne    1001 <ours::run_avx512::<ours::Multiply<u64>>+0x1>
    1037:\tmov    (%rdi),%al
    1039:\tdec    %rdi
    103b:\tjne    1037 <ours::run_avx512::<ours::Multiply<u64>>+0x37>
    103d:\tret
    103e:\txchg   %ax,%ax

0000000000001040 <plain>:
    1040:\tvaddpd %ymm15,%ymm1,%ymm2
    1044:\tjmp    1000 <ours::run_avx512::<ours::Multiply<u64>>>
    1046:\tint3

0000000000001050 <masked>:
    1050:\tkmovq  %k1,%rax
    1054:\tret

0000000000001060 <upper>:
    1060:\tvaddpd %ymm16,%ymm1,%ymm2
";

fn functions() -> Vec<Function> {
    functions_in(LISTING.as_bytes()).expect("memory is readable")
}

#[test]
fn instructions_of_a_kernel_are_counted_by_kind() {
    let kernel = &functions()[0];
    assert_eq!(kernel.name, "ours::run_avx512::<ours::Multiply<u64>>");
    // Of the loops, only the innermost loop with wide instructions counts. Padding does not count.
    assert_eq!(kernel.counts, Counts { instructions: 13, wide: 3, spills: 2, inner_loops: 5 });
    assert!(kernel.avx512);
}

#[test]
fn a_jump_to_another_function_is_not_a_loop() {
    let plain = &functions()[1];
    assert_eq!(plain.counts, Counts { instructions: 2, ..Counts::default() });
}

#[test]
fn avx512_is_distinguished_from_avx2() {
    let functions = functions();
    let by_name = |name| functions.iter().find(|function| function.name == name).expect("it is in the listing");
    assert!(!by_name("plain").avx512);
    assert!(by_name("masked").avx512);
    assert!(by_name("upper").avx512);
    assert_eq!(functions.len(), 4);
}

#[test]
fn upper_registers_and_masks_are_recognised() {
    for avx2 in ["vaddpd %ymm1,%ymm15,%ymm9", "movaps %xmm10,%xmm1", "mov %rax,%rbx", "call 1000 <k1>"] {
        assert!(!has_upper_register_or_mask(avx2), "{avx2}");
    }
    for avx512 in ["vaddpd %xmm31,%xmm1,%xmm2", "vmovupd %ymm1,(%rax){%k1}", "vaddpd %ymm2,%ymm1,%ymm20"] {
        assert!(has_upper_register_or_mask(avx512), "{avx512}");
    }
}
