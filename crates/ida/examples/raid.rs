//! An array of six members, two of them spare, as a RAID 6 would be: a small write updates parity
//! from the difference, two members fail, one answers with a wrong byte, and everything is rebuilt.

#![allow(clippy::print_stdout, reason = "an example talks to the terminal")]

use nandu_ida::{Code, FragmentSet, IdaError, Matrix, Reconstructor, checksum};

const MEMBERS: usize = 6;
const STRIPE_UNIT_BYTES: usize = 4096;

fn main() -> Result<(), IdaError> {
    let code = Code::new(4, MEMBERS, Matrix::Cauchy)?;
    println!("kernel: {:?}", code.kernel());

    // A full stripe: four units of data, two of parity.
    let mut stripe = vec![vec![0; STRIPE_UNIT_BYTES]; MEMBERS];
    for (fill, unit) in (1_u8..).zip(&mut stripe[..4]) {
        unit.fill(fill);
    }
    let (data, parity) = stripe.split_at_mut(4);
    code.encode(data, parity)?;

    // A small write: 100 bytes of member 2 and the same 100 of each parity, nothing else.
    let (offset, new) = (1000, [0xEE; 100]);
    let old = data[2][offset..][..100].to_vec();
    code.update(2, offset, &old, &new, parity)?;
    data[2][offset..][..100].copy_from_slice(&new);
    let checksums: Vec<u32> = stripe.iter().map(|unit| checksum(unit)).collect();
    let whole = stripe.clone();

    // Member 0 is silent, member 5 has one wrong bit. Two failures are masked.
    stripe[5][17] ^= 0x40;
    let answers: Vec<Option<&Vec<u8>>> =
        stripe.iter().enumerate().map(|(member, unit)| (member != 0).then_some(unit)).collect();
    let intact = code.intact(&answers, &checksums)?;
    println!("lost: {}", FragmentSet::first(MEMBERS).without(&intact));
    let mut reconstructor = Reconstructor::new(code, 16);
    stripe[0].fill(0);
    reconstructor.reconstruct(&mut stripe, intact)?;
    assert_eq!(stripe, whole);
    println!("rebuilt");

    // A third failure is too much, and the error names all three.
    let two_parities: FragmentSet = [1, 2, 4].into_iter().collect();
    if let Err(error) = reconstructor.reconstruct(&mut stripe, two_parities) {
        println!("{error}");
    }
    Ok(())
}
