//! What the compiler refuses. That objects live long enough is not among it: they hold one another
//! by count, so that there is no order to get wrong.
#![allow(missing_docs)]

#[test]
fn misuse_does_not_compile() {
    let cases = trybuild::TestCases::new();
    // The same objects used as they are meant to be, so that the others fail for their own reason.
    cases.pass("tests/compile_pass/*.rs");
    cases.compile_fail("tests/compile_fail/*.rs");
}
