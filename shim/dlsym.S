/*
 * dlsym.S - dlsym and dlvsym of the process.
 *
 * Each look-up is shown to lookup_symbol(). Without an answer of ours we tail-jump to the next
 * definition with the caller's return address in place: glibc finds the caller's scope by it, and a
 * C wrapper here would break RTLD_NEXT and RTLD_DEFAULT of everybody else.
 */
#if defined(__x86_64__)

.macro override name, next, versioned
	.globl	\name
	.type	\name, @function
\name:
	.cfi_startproc
	endbr64
	subq	$40, %rsp
	.cfi_adjust_cfa_offset 40
	movq	%rdi, 0(%rsp)
	movq	%rsi, 8(%rsp)
	movq	%rdx, 16(%rsp)
	movq	40(%rsp), %rax
	movq	%rax, 24(%rsp)
	movq	%rsp, %rdi
	movl	$\versioned, %esi
	call	lookup_symbol
	movq	0(%rsp), %rdi
	movq	8(%rsp), %rsi
	movq	16(%rsp), %rdx
	addq	$40, %rsp
	.cfi_adjust_cfa_offset -40
	testq	%rax, %rax
	jne	1f
	jmp	*\next(%rip)
1:	ret
	.cfi_endproc
	.size	\name, . - \name
.endm

#elif defined(__aarch64__)

.macro override name, next, versioned
	.globl	\name
	.type	\name, %function
\name:
	.cfi_startproc
	hint	#34
	stp	x29, x30, [sp, #-48]!
	.cfi_adjust_cfa_offset 48
	.cfi_rel_offset x29, 0
	.cfi_rel_offset x30, 8
	stp	x0, x1, [sp, #16]
	stp	x2, x30, [sp, #32]
	add	x0, sp, #16
	mov	w1, #\versioned
	bl	lookup_symbol
	mov	x3, x0
	ldp	x0, x1, [sp, #16]
	ldr	x2, [sp, #32]
	ldp	x29, x30, [sp], #48
	.cfi_adjust_cfa_offset -48
	cbnz	x3, 1f
	adrp	x3, \next
	ldr	x3, [x3, #:lo12:\next]
	br	x3
1:	mov	x0, x3
	ret
	.cfi_endproc
	.size	\name, . - \name
.endm

#else
#error "cuward's dlsym is written for x86-64 and aarch64"
#endif

	.text
	.hidden	lookup_symbol
	.hidden	lookup_next_dlsym
	.hidden	lookup_next_dlvsym
	override dlsym, lookup_next_dlsym, 0
	override dlvsym, lookup_next_dlvsym, 1

	.section .note.GNU-stack, "", %progbits
