//! Host numerics against fixed values and golden vectors.
#![allow(missing_docs, clippy::unwrap_used)]

use half::{bf16, f16};
use safetensors::SafeTensors;
use sha2::{Digest, Sha256};
use vramscope::ops::host::{convrot, formats, int8, nvfp4};

fn r#gen(r: usize, c: usize) -> Vec<f32> {
    let at = |i: usize| ((31 * (i / c) + 17 * (i % c)) % 97) as f32 - 48.0;
    (0..r * c).map(|i| at(i) / 8.0).collect()
}
fn sha(b: &[u8]) -> String {
    Sha256::digest(b)[..8]
        .iter()
        .map(|v| format!("{v:02x}"))
        .collect()
}
fn bytes(q: &[i8]) -> Vec<u8> {
    q.iter().map(|v| *v as u8).collect()
}
fn load(name: &str) -> Vec<u8> {
    std::fs::read(format!(
        "{}/tests/data/golden/{name}.safetensors",
        env!("CARGO_MANIFEST_DIR")
    ))
    .unwrap()
}
fn floats(t: &SafeTensors<'_>, k: &str) -> Vec<f32> {
    let v = t.tensor(k).unwrap();
    let two = |b: &[u8]| [b[0], b[1]];
    match v.dtype() {
        safetensors::Dtype::F32 => v
            .data()
            .chunks(4)
            .map(|b| f32::from_le_bytes(b.try_into().unwrap()))
            .collect(),
        safetensors::Dtype::BF16 => v
            .data()
            .chunks(2)
            .map(|b| bf16::from_le_bytes(two(b)).to_f32())
            .collect(),
        safetensors::Dtype::F16 => v
            .data()
            .chunks(2)
            .map(|b| f16::from_le_bytes(two(b)).to_f32())
            .collect(),
        other => panic!("{other:?}"),
    }
}
fn close(a: &[f32], b: &[f32], tol: f32) {
    assert_eq!(a.len(), b.len());
    let m = b.iter().fold(0f32, |m, v| m.max(v.abs()));
    assert!(a.iter().zip(b).all(|(x, y)| (x - y).abs() <= tol * m));
}

#[test]
fn fixed_values() {
    assert_eq!(nvfp4::tensor_scale(&[6.0]).to_bits(), 0x3B12_4925);
    for (r, c, q, s) in [
        (16, 32, "cfa8295ec3d9c491", "a1cd5c7af0678db5"),
        (20, 48, "c9f88c0dc642e86e", "27aaefe70fafed28"),
        (130, 80, "b5a29881e5b392c0", "335a737bc2e4408c"),
    ] {
        let o = nvfp4::quantize(&r#gen(r, c), r, c, None, true);
        assert_eq!((sha(&o.codes).as_str(), sha(&o.scales).as_str()), (q, s));
    }
    let x = r#gen(8, 256);
    let (q, s) = int8::quantize_rowwise(&x, 256);
    assert_eq!(
        (sha(&bytes(&q)).as_str(), s[0].to_bits()),
        ("ed257bb86e622183", 0x3D41_8306)
    );
    assert_eq!(q[..8], [-127, -82, -37, 8, 53, 98, -114, -69]);
    let xb: Vec<bf16> = x.iter().map(|v| bf16::from_f32(*v)).collect();
    assert_eq!(
        sha(&bytes(&int8::quantize_rowwise(&xb, 256).0)),
        "4313a697369bde44"
    );
    let w: Vec<f32> = r#gen(32, 256).chunks(256).rev().flatten().copied().collect();
    let (wq, ws) = int8::quantize_rowwise(&w, 256);
    let y = int8::int8_linear(&x, &wq, &ws, None, 256).unwrap();
    let raw: Vec<u8> = y.iter().flat_map(|v| v.to_le_bytes()).collect();
    assert_eq!(sha(&raw), "fd502d02d5e8781c");
}

#[test]
fn edge_cases() {
    let t = [0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0, 6.0];
    let x: Vec<f32> = t.iter().copied().chain(t.iter().map(|v| -v)).collect();
    let o = nvfp4::quantize(&x, 1, 16, Some(1.0), false);
    assert_eq!(o.codes, [0x02, 0x24, 0x46, 0x67, 0x8A, 0xAC, 0xCE, 0xEF]);
    assert_eq!(o.scales[0], 0x38);
    let z = nvfp4::quantize(&[0.0; 16], 1, 16, None, false);
    assert_eq!((z.tensor_scale, z.scales[0], z.codes[0]), (1.0, 0, 0));
    let n = nvfp4::quantize(&[f32::NAN; 16], 1, 16, Some(0.01), false);
    assert_eq!((n.scales[0], n.codes[0], n.counts.nan), (0x7F, 0, 1));
    let i = nvfp4::quantize(&[f32::INFINITY; 16], 1, 16, Some(0.01), false);
    assert_eq!((i.scales[0], i.codes[0], i.counts.saturated), (0x7E, 0x77, 1));
    assert_eq!(
        nvfp4::quantize(&[1e-4; 16], 1, 16, Some(1.0), false)
            .counts
            .flushed,
        1
    );
    for b in 0..0x7Fu8 {
        assert_eq!(formats::e4m3_encode(formats::e4m3_decode(b)), b);
    }
    assert_eq!(
        convrot::rotate(&mut [0.0; 8], 8, 8),
        Err(convrot::RotateError::Group(8))
    );
}

#[test]
fn golden_nvfp4_quantize() {
    let data = load("nvfp4_quant");
    let t = SafeTensors::deserialize(&data).unwrap();
    for name in t.names().iter().filter_map(|n| n.strip_suffix(".ts")) {
        let x = t.tensor(&format!("{name}.x")).unwrap();
        let (r, c) = (x.shape()[0], x.shape()[1]);
        let ts = floats(&t, &format!("{name}.ts"))[0];
        let want = floats(&t, &format!("{name}.deq_f32"));
        let o = nvfp4::quantize(
            &floats(&t, &format!("{name}.x")),
            r,
            c,
            Some(ts),
            name.starts_with("pad"),
        );
        let got = nvfp4::dequantize(&o);
        if ts == 0.0 {
            assert!(got.iter().all(|v| *v == 0.0));
            continue;
        }
        assert_eq!(got.len(), want.len());
        let same = |(a, b): (&f32, &f32)| a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan());
        assert!(got.iter().zip(&want).all(same), "{name}");
        if want.iter().all(|v| !v.is_nan()) {
            assert_eq!(o.codes, t.tensor(&format!("{name}.q")).unwrap().data(), "{name}");
            assert_eq!(
                o.scales,
                t.tensor(&format!("{name}.scale_swz")).unwrap().data(),
                "{name}"
            );
        }
    }
}

#[test]
fn golden_nvfp4_gemm() {
    let data = load("nvfp4_gemm");
    let t = SafeTensors::deserialize(&data).unwrap();
    for name in ["plain", "outlier_norot", "outlier_rot16", "outlier_rot64"] {
        let k = if name.contains("_rot") { "_rot" } else { "" };
        let a = nvfp4::quantize(&floats(&t, &format!("{name}.a{k}")), 17, 128, None, false);
        let b = nvfp4::quantize(&floats(&t, &format!("{name}.b{k}")), 32, 128, None, false);
        assert_eq!(a.codes, t.tensor(&format!("{name}.qa")).unwrap().data());
        assert_eq!(b.scales, t.tensor(&format!("{name}.sb_swz")).unwrap().data());
        let bias = (name == "plain").then(|| floats(&t, "plain.bias"));
        let y = t.tensor(&format!("{name}.y_f64")).unwrap();
        let y: Vec<f32> = y
            .data()
            .chunks(8)
            .map(|v| f64::from_le_bytes(v.try_into().unwrap()) as f32)
            .collect();
        close(&nvfp4::gemm(&a, &b, bias.as_deref()).unwrap(), &y, 2e-6);
    }
}

#[test]
fn golden_int8_and_rotation() {
    let data = load("int8_convrot");
    let t = SafeTensors::deserialize(&data).unwrap();
    let raw = |k: &str| t.tensor(k).unwrap().data().to_vec();
    for (k, cols) in [("f32", 64), ("ties", 16)] {
        let (q, s) = int8::quantize_rowwise(&floats(&t, &format!("int8_row.{k}.x")), cols);
        assert_eq!(bytes(&q), raw(&format!("int8_row.{k}.q")));
        assert_eq!(s, floats(&t, &format!("int8_row.{k}.scale")));
    }
    let xb: Vec<bf16> = floats(&t, "int8_row.bf16.x")
        .iter()
        .map(|v| bf16::from_f32(*v))
        .collect();
    assert_eq!(bytes(&int8::quantize_rowwise(&xb, 64).0), raw("int8_row.bf16.q"));
    let xh: Vec<f16> = floats(&t, "int8_row.f16.x")
        .iter()
        .map(|v| f16::from_f32(*v))
        .collect();
    assert_eq!(bytes(&int8::quantize_rowwise(&xh, 64).0), raw("int8_row.f16.q"));
    let (q, _) = int8::quantize_tensorwise(&floats(&t, "int8_tensor.f32.x"));
    assert_eq!(bytes(&q), raw("int8_tensor.f32.q"));
    let wq: Vec<i8> = raw("int8_linear.wq").iter().map(|v| *v as i8).collect();
    let (x, ws, bias) = (
        floats(&t, "int8_linear.x"),
        floats(&t, "int8_linear.wscale"),
        floats(&t, "int8_linear.bias"),
    );
    let y = int8::int8_linear(&x, &wq, &ws, Some(&bias), 128).unwrap();
    close(&y, &floats(&t, "int8_linear.y_f32"), 2e-6);
    for g in [16, 64] {
        let mut r = x.clone();
        convrot::rotate(&mut r, 128, g).unwrap();
        close(&r, &floats(&t, &format!("convrot_int8.g{g}.x_rot")), 2e-6);
    }
}
