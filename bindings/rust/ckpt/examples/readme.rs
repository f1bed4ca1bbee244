use ckpt::{Load, Reader, Save, Session, Store, TensorDesc};

fn main() -> ckpt::Result<()> {
    let place = std::env::args().nth(1).unwrap_or_else(|| "mem:readme".to_owned());
    let desc = TensorDesc::of::<f32>(&[128, 64]);
    let weights = vec![0.5f32; 128 * 64];

    let store = Store::open(&place)?;
    let session = Session::open(&store)?; // rank 0 of 1
    let mut save = Save::new(&session, "step-100", Some(100))?;
    save.add_tensor("w", &desc, &weights)?;
    save.set_attr("optimizer", "adamw")?;
    save.run()?; // Ok here means: durable, complete, committed

    let reader = Reader::open(&store, "latest")?;
    let mut loaded = vec![0f32; 128 * 64];
    let mut load = Load::new(&reader)?;
    load.add_tensor("w", &desc, &mut loaded)?;
    load.run()?; // Ok here means: every byte is there and its checksum is right
    assert_eq!(loaded, weights);
    println!("{} holds {} tensor", reader.info()?.id(), reader.tensors().len());
    Ok(())
}
