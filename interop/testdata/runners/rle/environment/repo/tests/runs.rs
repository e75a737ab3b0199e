#[test]
fn empty() {
    assert_eq!(rle::encode("").len(), 0);
}
