//! The optional features: elements of crate `half`, views of crate `safetensors`.
#![cfg(any(feature = "half", feature = "safetensors"))]

mod common;

use ckpt::{Reader, Save};
use common::memory_store;

#[cfg(feature = "half")]
#[test]
fn halves_come_back() {
    use ckpt::TensorDesc;
    use half::{bf16, f16};
    let (store, session) = memory_store();
    let (a, b) = ([f16::from_f32(0.5), f16::NEG_INFINITY], [bf16::from_f32(3.0), bf16::EPSILON]);
    let mut save = Save::new(&session, "one", None).unwrap();
    save.add_tensor("a", &TensorDesc::of::<f16>(&[2]), &a).unwrap();
    save.add_tensor("b", &TensorDesc::of::<bf16>(&[2]), &b).unwrap();
    save.run().unwrap();
    let reader = Reader::open(&store, "latest").unwrap();
    assert_eq!(reader.tensor("b").unwrap().dtype(), ckpt::Dtype::BF16);
    assert_eq!((reader.read::<f16>("a").unwrap(), reader.read::<bf16>("b").unwrap()), (a.to_vec(), b.to_vec()));
}

#[cfg(feature = "safetensors")]
mod safetensors_views {
    use std::borrow::Cow;

    use ckpt::{Dtype, Status};
    use safetensors::tensor::{serialize, TensorView};
    use safetensors::{Dtype as StDtype, SafeTensors, View};

    use super::*;

    #[test]
    fn a_file_in_memory_goes_through_a_checkpoint_and_comes_out_the_same() {
        let bytes: Vec<u8> = (0..24).collect();
        let views = [
            ("a", TensorView::new(StDtype::BF16, vec![2, 4], &bytes[..16]).unwrap()),
            ("b", TensorView::new(StDtype::I64, vec![], &bytes[16..]).unwrap()),
        ];
        let before = serialize(views, None).unwrap();
        let (store, session) = memory_store();
        let file = SafeTensors::deserialize(&before).unwrap();
        let mut save = Save::new(&session, "one", None).unwrap();
        save.add_safetensors(&file).unwrap();
        drop(file); // the bytes are borrowed, not the list of them
        save.run().unwrap();
        let reader = Reader::open(&store, "latest").unwrap();
        let tensors: Vec<_> = ["a", "b"].iter().map(|name| (*name, reader.read_tensor(name).unwrap())).collect();
        let views = tensors.iter().map(|(name, tensor)| (*name, tensor.as_view().unwrap()));
        assert_eq!(serialize(views, None).unwrap(), before);
    }

    struct Made;
    impl View for Made {
        fn dtype(&self) -> StDtype {
            StDtype::U8
        }
        fn shape(&self) -> &[usize] {
            &[3]
        }
        fn data(&self) -> Cow<'_, [u8]> {
            vec![1, 2, 3].into()
        }
        fn data_len(&self) -> usize {
            3
        }
    }

    #[test]
    fn what_a_view_makes_is_kept_until_it_is_saved() {
        let (store, session) = memory_store();
        let mut save = Save::new(&session, "one", None).unwrap();
        save.add_view("made", &Made).unwrap();
        save.start().unwrap().wait_committed().unwrap();
        assert_eq!(Reader::open(&store, "latest").unwrap().read::<u8>("made").unwrap(), [1, 2, 3]);
    }

    #[test]
    fn dtypes_that_the_other_side_lacks_are_unsupported() {
        assert_eq!(StDtype::try_from(Dtype::F8_E3M4).unwrap_err().status(), Status::UNSUPPORTED);
        for dtype in [StDtype::BOOL, StDtype::F4, StDtype::F8_E4M3, StDtype::BF16, StDtype::C64, StDtype::U64] {
            assert_eq!(StDtype::try_from(Dtype::try_from(dtype).unwrap()).unwrap(), dtype);
        }
    }
}
