//! Host numerics against fixed values and golden vectors.
#![expect(clippy::unwrap_used, reason = "a helper of a test fails like a test")]

use half::{bf16, f16};
use safetensors::SafeTensors;
use sha2::{Digest, Sha256};
use vramscope::base::random::Random;
use vramscope::ops::host::convrot::{RotationGroup, rotate, rotate_into};
use vramscope::ops::host::formats::{E2M1_MAGNITUDES, e2m1_decode, e2m1_encode, e4m3_decode, e4m3_encode};
use vramscope::ops::host::int8;
use vramscope::ops::host::nvfp4::{self, Layout, Operand, QuantizeCounts, TensorScale};
use vramscope::ops::host::shape::LinearShape;

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
#[track_caller]
fn close(a: &[f32], b: &[f32], tol: f32) {
    assert_eq!(a.len(), b.len());
    let m = b.iter().fold(0f32, |m, v| m.max(v.abs()));
    assert!(a.iter().zip(b).all(|(x, y)| (x - y).abs() <= tol * m));
}

struct Quantized {
    layout: Layout,
    codes: Vec<u8>,
    scales: Vec<u8>,
    tensor_scale: f32,
    counts: QuantizeCounts,
}

impl Quantized {
    /// Buffers hold noise before, as memory of a device does.
    fn new(x: &[f32], layout: Layout, scale: TensorScale) -> Quantized {
        let mut codes = vec![0xA5; layout.codes_bytes()];
        let mut scales = vec![0xA5; layout.scales_bytes()];
        let mut cell = [f32::NAN];
        let counts = nvfp4::quantize(x, layout, scale, &mut codes, &mut scales, &mut cell).unwrap();
        Quantized {
            layout,
            codes,
            scales,
            tensor_scale: cell[0],
            counts,
        }
    }

    fn block(x: &[f32; 16], scale: TensorScale) -> Quantized {
        Quantized::new(x, Layout::exact(1, 16), scale)
    }

    fn operand(&self) -> Operand<'_> {
        Operand::new(self.layout, &self.codes, &self.scales, self.tensor_scale).unwrap()
    }

    fn decoded(&self) -> Vec<f32> {
        let mut out = vec![f32::NAN; self.layout.stored_rows() * self.layout.stored_cols()];
        nvfp4::dequantize(&self.operand(), &mut out).unwrap();
        out
    }
}

fn rowwise<T: int8::Element>(x: &[T], cols: usize) -> (Vec<i8>, Vec<f32>) {
    let (mut codes, mut scales) = (vec![99; x.len()], vec![f32::NAN; x.len() / cols]);
    int8::quantize_rowwise(x, cols, &mut codes, &mut scales).unwrap();
    (codes, scales)
}

fn tensorwise<T: int8::Element>(x: &[T]) -> (Vec<i8>, f32) {
    let (mut codes, mut scale) = (vec![99; x.len()], [f32::NAN]);
    int8::quantize_tensorwise(x, &mut codes, &mut scale).unwrap();
    (codes, scale[0])
}

fn int8_linear<T: int8::Element>(x: &[T], w: &[i8], ws: &[f32], bias: Option<&[f32]>, k: usize) -> Vec<T> {
    let shape = linear_shape(x.len() / k, k, w.len() / k);
    let mut out = vec![T::from_f32(f32::NAN); shape.rows * shape.outputs];
    int8::linear(x, w, ws, bias, shape, &mut vec![99; k], &mut out).unwrap();
    out
}

fn linear_shape(rows: usize, inputs: usize, outputs: usize) -> LinearShape {
    LinearShape {
        rows,
        inputs,
        outputs,
    }
}

fn group(size: usize) -> RotationGroup {
    RotationGroup::new(size).unwrap()
}

fn halves<T>(values: &[f32], round: impl Fn(f32) -> T) -> Vec<T> {
    values.iter().map(|v| round(*v)).collect()
}

/// Equal bits, or both NaN.
fn same(a: &f32, b: &f32) -> bool {
    a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan())
}

#[test]
fn fixed_values() {
    let one = Quantized::block(&[6.0; 16], TensorScale::Measured);
    assert_eq!(one.tensor_scale.to_bits(), 0x3B12_4925);
    for (r, c, q, s) in [
        (16, 32, "cfa8295ec3d9c491", "a1cd5c7af0678db5"),
        (20, 48, "c9f88c0dc642e86e", "27aaefe70fafed28"),
        (130, 80, "b5a29881e5b392c0", "335a737bc2e4408c"),
    ] {
        let o = Quantized::new(&r#gen(r, c), Layout::padded(r, c), TensorScale::Measured);
        assert_eq!((sha(&o.codes).as_str(), sha(&o.scales).as_str()), (q, s));
    }
    let x = r#gen(8, 256);
    let (q, s) = rowwise(&x, 256);
    assert_eq!(
        (sha(&bytes(&q)).as_str(), s[0].to_bits()),
        ("ed257bb86e622183", 0x3D41_8306)
    );
    assert_eq!(q[..8], [-127, -82, -37, 8, 53, 98, -114, -69]);
    let (q, _) = rowwise(&halves(&x, bf16::from_f32), 256);
    assert_eq!(sha(&bytes(&q)), "4313a697369bde44");
    let w: Vec<f32> = r#gen(32, 256).chunks(256).rev().flatten().copied().collect();
    let (wq, ws) = rowwise(&w, 256);
    let y = int8_linear(&x, &wq, &ws, None, 256);
    let raw: Vec<u8> = y.iter().flat_map(|v| v.to_le_bytes()).collect();
    assert_eq!(sha(&raw), "fd502d02d5e8781c");
}

#[test]
fn edge_blocks_are_safe_and_counted() {
    let t = [0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0, 6.0];
    let x: [f32; 16] = std::array::from_fn(|i| if i < 8 { t[i] } else { -t[i - 8] });
    let o = Quantized::block(&x, TensorScale::Given(1.0));
    assert_eq!(o.codes, [0x02, 0x24, 0x46, 0x67, 0x8A, 0xAC, 0xCE, 0xEF]);
    assert_eq!(o.scales[0], 0x38);
    let z = Quantized::block(&[0.0; 16], TensorScale::Measured);
    assert_eq!((z.tensor_scale, z.scales[0], z.codes[0]), (1.0, 0, 0));
    let given = TensorScale::Given(0.01);
    let n = Quantized::block(&[f32::NAN; 16], given);
    assert_eq!((n.scales[0], n.codes[0], n.counts.nan), (0x7F, 0, 1));
    let i = Quantized::block(&[f32::INFINITY; 16], given);
    assert_eq!((i.scales[0], i.codes[0], i.counts.saturated), (0x7E, 0x77, 1));
    let tiny = Quantized::block(&[1e-4; 16], TensorScale::Given(1.0));
    assert_eq!((tiny.counts.flushed, tiny.counts.blocks), (1, 1));
    let padded = Quantized::new(&r#gen(17, 50), Layout::padded(17, 50), TensorScale::Measured);
    assert_eq!(padded.counts.blocks, 17 * 4);
}

#[test]
fn e2m1_is_the_nearest_code_of_every_float() {
    // Midpoints are bf16 values, so an answer can change only there: the float itself, just above, just below the next.
    for high in 0..=0xFFFFu32 {
        for low in [0, 1, 0x8000, 0xFFFF] {
            let x = f32::from_bits(high << 16 | low);
            let a = f64::from(x.abs().min(8.0));
            let mut nearest = 0usize;
            for code in (1..8).filter(|_| !x.is_nan()) {
                let [old, new] = [nearest, code].map(|c| (a - f64::from(E2M1_MAGNITUDES[c])).abs());
                if new < old || (new == old && code.is_multiple_of(2)) {
                    nearest = code;
                }
            }
            let sign = if x.is_sign_negative() && !x.is_nan() { 8 } else { 0 };
            assert_eq!(e2m1_encode(x), nearest as u8 | sign, "{x:e}");
        }
    }
    for code in 0..16 {
        assert_eq!(e2m1_encode(e2m1_decode(code)), code);
    }
}

#[test]
fn e4m3_is_the_nearest_byte_of_every_midpoint() {
    for byte in 0..0x7Eu8 {
        let (low, high) = (e4m3_decode(byte), e4m3_decode(byte + 1));
        assert!(low < high);
        let middle = f32::midpoint(low, high);
        let even = byte + byte % 2;
        for sign in [0, 0x80] {
            let encode = |x: f32| e4m3_encode(if sign == 0 { x } else { -x });
            assert_eq!(encode(low), byte | sign);
            assert_eq!(encode(middle), even | sign);
            assert_eq!(encode(middle.next_down()), byte | sign);
            assert_eq!(encode(middle.next_up()), (byte + 1) | sign);
        }
    }
    assert_eq!((e4m3_decode(0x08), e4m3_decode(0x01)), (1.0 / 64.0, 1.0 / 512.0));
    assert_eq!((e4m3_decode(0x7E), e4m3_encode(1e9)), (448.0, 0x7E));
    assert!(e4m3_decode(0x7F).is_nan() && e4m3_decode(0xFF).is_nan());
    assert_eq!(e4m3_encode(f32::NAN), 0x7F);
}

#[test]
fn golden_nvfp4_quantize() {
    let data = load("nvfp4_quant");
    let t = SafeTensors::deserialize(&data).unwrap();
    for name in t.names().iter().filter_map(|n| n.strip_suffix(".ts")) {
        let x = t.tensor(&format!("{name}.x")).unwrap();
        let (r, c) = (x.shape()[0], x.shape()[1]);
        let layout = if name.starts_with("pad") {
            Layout::padded(r, c)
        } else {
            Layout::exact(r, c)
        };
        let ts = floats(&t, &format!("{name}.ts"))[0];
        let x = floats(&t, &format!("{name}.x"));
        let o = Quantized::new(&x, layout, TensorScale::Given(ts));
        let got = o.decoded();
        if ts == 0.0 {
            assert!(got.iter().all(|v| *v == 0.0));
            continue;
        }
        let want = floats(&t, &format!("{name}.deq_f32"));
        assert_eq!(got.len(), want.len());
        assert!(got.iter().zip(&want).all(|(a, b)| same(a, b)), "{name}");
        let mut short = vec![0; got.len()];
        nvfp4::dequantize_bf16(&o.operand(), &mut short).unwrap();
        let short: Vec<f32> = short.iter().map(|v| bf16::from_bits(*v).to_f32()).collect();
        let want_short = floats(&t, &format!("{name}.deq_bf16"));
        assert!(
            short.iter().zip(&want_short).all(|(a, b)| same(a, b)),
            "{name} bf16"
        );
        if want.iter().all(|v| !v.is_nan()) {
            assert_eq!(o.codes, t.tensor(&format!("{name}.q")).unwrap().data(), "{name}");
            let scales = t.tensor(&format!("{name}.scale_swz")).unwrap();
            assert_eq!(o.scales, scales.data(), "{name}");
        }
    }
}

fn product(a: &Quantized, b: &Quantized, bias: Option<&[f32]>) -> Vec<f32> {
    let mut y = vec![f32::NAN; a.layout.rows() * b.layout.rows()];
    nvfp4::gemm(&a.operand(), &b.operand(), bias, &mut y).unwrap();
    y
}

#[test]
fn golden_nvfp4_gemm() {
    let data = load("nvfp4_gemm");
    let t = SafeTensors::deserialize(&data).unwrap();
    for name in ["plain", "outlier_norot", "outlier_rot16", "outlier_rot64"] {
        let k = if name.contains("_rot") { "_rot" } else { "" };
        let [a, b] = [("a", 17), ("b", 32)].map(|(side, rows)| {
            let x = floats(&t, &format!("{name}.{side}{k}"));
            [Layout::exact(rows, 128), Layout::padded(rows, 128)]
                .map(|layout| Quantized::new(&x, layout, TensorScale::Measured))
        });
        assert_eq!(a[0].codes, t.tensor(&format!("{name}.qa")).unwrap().data());
        assert_eq!(b[0].scales, t.tensor(&format!("{name}.sb_swz")).unwrap().data());
        let bias = (name == "plain").then(|| floats(&t, "plain.bias"));
        let y = t.tensor(&format!("{name}.y_f64")).unwrap();
        let y: Vec<f32> = y
            .data()
            .chunks(8)
            .map(|v| f64::from_le_bytes(v.try_into().unwrap()) as f32)
            .collect();
        let got = product(&a[0], &b[0], bias.as_deref());
        // Sums are exact in f64 and rounded once, so this is the reference itself.
        assert_eq!(got, y, "{name}");
        assert_eq!(product(&a[1], &b[1], bias.as_deref()), y, "{name} padded");
    }
}

#[test]
fn nvfp4_gemm_is_that_of_the_decoded_operands() {
    // Sizes around the tiles of 8 rows and 256 columns.
    for (m, n, k) in [
        (1, 1, 1),
        (1, 8, 256),
        (7, 9, 272),
        (8, 17, 240),
        (9, 3, 520),
        (3, 130, 31),
    ] {
        let [a, b] = [(m, 0), (n, 5)].map(|(rows, shift)| {
            let x: Vec<f32> = r#gen(rows, k)
                .iter()
                .map(|v| v * v - 9.0 + shift as f32)
                .collect();
            Quantized::new(&x, Layout::padded(rows, k), TensorScale::Measured)
        });
        let (x, w, width) = (a.decoded(), b.decoded(), a.layout.stored_cols());
        let mut expected = Vec::new();
        for x in x.chunks(width).take(m) {
            for w in w.chunks(width).take(n) {
                let sum: f64 = x.iter().zip(w).map(|(x, w)| f64::from(*x) * f64::from(*w)).sum();
                expected.push(sum as f32);
            }
        }
        close(&product(&a, &b, None), &expected, 2e-6);
    }
}

#[test]
fn golden_int8_quantize() {
    let data = load("int8_convrot");
    let t = SafeTensors::deserialize(&data).unwrap();
    let raw = |k: &str| t.tensor(k).unwrap().data().to_vec();
    for (k, cols) in [("f32", 64), ("ties", 16)] {
        let (q, s) = rowwise(&floats(&t, &format!("int8_row.{k}.x")), cols);
        assert_eq!(bytes(&q), raw(&format!("int8_row.{k}.q")));
        assert_eq!(s, floats(&t, &format!("int8_row.{k}.scale")));
    }
    let (xb, xh) = (floats(&t, "int8_row.bf16.x"), floats(&t, "int8_row.f16.x"));
    let (q, s) = rowwise(&halves(&xb, bf16::from_f32), 64);
    assert_eq!(bytes(&q), raw("int8_row.bf16.q"));
    assert_eq!(s, floats(&t, "int8_row.bf16.scale"));
    let (q, s) = rowwise(&halves(&xh, f16::from_f32), 64);
    assert_eq!(bytes(&q), raw("int8_row.f16.q"));
    assert_eq!(s, floats(&t, "int8_row.f16.scale"));

    let (xb, xh) = (floats(&t, "int8_tensor.bf16.x"), floats(&t, "int8_tensor.f16.x"));
    for (name, (q, s)) in [
        ("f32", tensorwise(&floats(&t, "int8_tensor.f32.x"))),
        ("bf16", tensorwise(&halves(&xb, bf16::from_f32))),
        ("f16", tensorwise(&halves(&xh, f16::from_f32))),
    ] {
        assert_eq!(bytes(&q), raw(&format!("int8_tensor.{name}.q")), "{name}");
        assert_eq!(s, floats(&t, &format!("int8_tensor.{name}.scale"))[0], "{name}");
    }
}

#[test]
fn non_finite_rows_do_not_touch_others() {
    let data = load("int8_convrot");
    let t = SafeTensors::deserialize(&data).unwrap();
    let (q, s) = rowwise(&floats(&t, "int8_row.nonfinite.x"), 32);
    let want_scales = floats(&t, "int8_row.nonfinite.scale");
    assert!(
        s.iter().zip(&want_scales).all(|(a, b)| same(a, b)),
        "{s:?} {want_scales:?}"
    );
    let want = t.tensor("int8_row.nonfinite.q").unwrap();
    for (row, (q, want)) in q.chunks(32).zip(want.data().chunks(32)).enumerate() {
        if s[row].is_finite() {
            assert_eq!(bytes(q), want);
        } else {
            assert_eq!(q, [0; 32]);
        }
    }
    assert_eq!(s.iter().filter(|s| s.is_finite()).count(), 3);
    let y = int8_linear(&[f32::NAN, 1.0, 127.0, -1.0], &[1, 1], &[1.0], None, 2);
    assert!(y[0].is_nan() && y[1] == 126.0, "{y:?}");
}

#[test]
fn stochastic_rounding_is_right_on_average_and_repeats() {
    let x = [0.3f32, -0.7, 2.0, -3.99, 127.6, -300.0];
    let draw = |seed| {
        let mut codes = [0; 6];
        int8::quantize_stochastic(&x, 1.0, seed, &mut codes).unwrap();
        codes
    };
    assert_eq!(draw(7), draw(7));
    const DRAWS: u64 = 20_000;
    let mut sums = [0f64; 6];
    for seed in 0..DRAWS {
        // Seeds are spread, since neighbours share most of their sequence.
        let codes = draw(Random::seeded(seed).bits());
        for ((sum, code), v) in sums.iter_mut().zip(codes).zip(x) {
            let v = v.clamp(-128.0, 127.0);
            assert!(f32::from(code) == v.floor() || f32::from(code) == v.ceil());
            *sum += f64::from(code);
        }
    }
    for (sum, v) in sums.iter().zip(x) {
        // The deviation of a mean of that many draws is at most 0.5/sqrt(20,000) = 0.0035.
        let v = f64::from(v.clamp(-128.0, 127.0));
        assert!((sum / DRAWS as f64 - v).abs() < 0.015, "{v}");
    }
}

#[test]
fn golden_int8_products() {
    let data = load("int8_convrot");
    let t = SafeTensors::deserialize(&data).unwrap();
    let codes = |k: &str| -> Vec<i8> { t.tensor(k).unwrap().data().iter().map(|v| *v as i8).collect() };
    let (a, b) = (codes("mm_int8.a"), codes("mm_int8.b"));
    let b: Vec<i8> = (0..21 * 132).map(|i| b[i % 132 * 21 + i / 132]).collect();
    let mut c = vec![99; 13 * 21];
    int8::gemm(&a, &b, linear_shape(13, 132, 21), &mut c).unwrap();
    let raw: Vec<u8> = c.iter().flat_map(|v| v.to_le_bytes()).collect();
    assert_eq!(raw, t.tensor("mm_int8.c").unwrap().data());

    let [x, ws, bias] = ["x", "wscale", "bias"].map(|k| floats(&t, &format!("int8_linear.{k}")));
    let (wq, own) = rowwise(&floats(&t, "int8_linear.w"), 128);
    assert_eq!((&wq, &own), (&codes("int8_linear.wq"), &ws));
    let y = int8_linear(&x, &wq, &ws, Some(&bias), 128);
    close(&y, &floats(&t, "int8_linear.y_f32"), 2e-6);
    let short = int8_linear(&halves(&x, bf16::from_f32), &wq, &ws, Some(&bias), 128);
    let short: Vec<f32> = short.iter().map(|v| v.to_f32()).collect();
    assert_eq!(short, floats(&t, "int8_linear.y_bf16"));

    // The fused kernel and its parts agree to the bit.
    let shape = linear_shape(9, 128, 24);
    let (xq, xs) = rowwise(&x, 128);
    let (mut acc, mut parts) = (vec![0; 9 * 24], vec![f32::NAN; 9 * 24]);
    int8::gemm(&xq, &wq, shape, &mut acc).unwrap();
    int8::scale(&acc, &xs, &ws, Some(&bias), shape, &mut parts).unwrap();
    assert_eq!(parts, y);
    int8::scale(&acc, &xs, &ws[..1], None, shape, &mut parts).unwrap();
    assert_eq!(parts, int8_linear(&x, &wq, &ws[..1], None, 128));
}

#[test]
fn golden_rotation() {
    let data = load("int8_convrot");
    let t = SafeTensors::deserialize(&data).unwrap();
    let [x, w, bias] = ["x", "w", "bias"].map(|k| floats(&t, &format!("int8_linear.{k}")));
    for g in [16, 64] {
        let name = |k: &str| format!("convrot_int8.g{g}.{k}");
        let mut rotated = [x.clone(), w.clone()];
        rotated.iter_mut().for_each(|v| rotate(v, 128, group(g)).unwrap());
        close(&rotated[0], &floats(&t, &name("x_rot")), 2e-6);
        for (v, codes, scale) in [(&rotated[0], "xq", "xscale"), (&rotated[1], "wq", "wscale")] {
            let (q, s) = rowwise(v, 128);
            close(&s, &floats(&t, &name(scale)), 2e-6);
            // A quotient within rounding of a tie may fall to the other side.
            let want = t.tensor(&name(codes)).unwrap();
            let apart = q.iter().zip(want.data()).map(|(a, b)| a.abs_diff(*b as i8));
            assert!(apart.clone().all(|d| d <= 1));
            assert!(apart.filter(|d| *d > 0).count() <= 2, "{codes} {g}");
        }
        let (wq, ws) = rowwise(&rotated[1], 128);
        let y = int8_linear(&rotated[0], &wq, &ws, Some(&bias), 128);
        close(&y, &floats(&t, &name("y_f32")), 1e-3);
    }
}

#[test]
fn rotation_is_the_regular_hadamard_matrix() {
    let data = load("int8_convrot");
    let t = SafeTensors::deserialize(&data).unwrap();
    for g in [4usize, 16, 64, 256] {
        // Rotating the unit vectors gives the rows of the matrix.
        let mut unit = vec![0f32; g * g];
        (0..g).for_each(|i| unit[i * g + i] = 1.0);
        let mut h = vec![f32::NAN; g * g];
        rotate_into(&unit, g, group(g), &mut h).unwrap();
        let (name, rows) = match g {
            256 => ("hadamard.sign256_row0_row37".to_owned(), vec![0, 37]),
            _ => (format!("hadamard.sign{g}"), (0..g).collect()),
        };
        let signs = t.tensor(&name).unwrap();
        for (row, signs) in rows.iter().zip(signs.data().chunks(g)) {
            let want: Vec<f32> = signs
                .iter()
                .map(|s| f32::from(*s as i8) / (g as f32).sqrt())
                .collect();
            assert_eq!(h[row * g..][..g], want);
        }
        assert!((0..g * g).all(|i| h[i] == h[i % g * g + i / g]), "symmetric");
        rotate(&mut h, g, group(g)).unwrap();
        assert_eq!(h, unit, "its own inverse, exact in powers of two");
    }
    assert!(
        [0, 1, 8, 32, 128, 1024]
            .iter()
            .all(|g| RotationGroup::new(*g).is_none())
    );
}

/// Standard normal numbers (Box and Muller, 1958).
fn normal(seed: u64, len: usize) -> Vec<f32> {
    let mut random = Random::seeded(seed);
    let mut one = || {
        let radius = (-2.0 * (1.0 - f64::from(random.unit())).ln()).sqrt();
        (radius * (std::f64::consts::TAU * f64::from(random.unit())).cos()) as f32
    };
    (0..len).map(|_| one()).collect()
}

/// Root mean square of the difference, relative to that of `exact`.
fn relative_error(found: &[f32], exact: &[f64]) -> f64 {
    let square = |v: f64| v * v;
    let noise: f64 = found
        .iter()
        .zip(exact)
        .map(|(a, b)| square(f64::from(*a) - b))
        .sum();
    (noise / exact.iter().map(|b| square(*b)).sum::<f64>()).sqrt()
}

#[test]
fn quantization_noise_is_as_expected() {
    let (m, n, k) = (64, 48, 256);
    let (x, w) = (normal(1, m * k), normal(2, n * k));
    let wide = |x: &[f32]| x.iter().map(|v| f64::from(*v)).collect::<Vec<f64>>();
    let mut exact = Vec::new();
    for x in wide(&x).chunks(k) {
        for w in wide(&w).chunks(k) {
            exact.push(x.iter().zip(w).map(|(x, w)| x * w).sum());
        }
    }
    let [a, b] =
        [(&x, m), (&w, n)].map(|(x, rows)| Quantized::new(x, Layout::exact(rows, k), TensorScale::Measured));
    let (wq, ws) = rowwise(&w, k);
    // INT8: the largest of 256 normal numbers is 2.9 on average, a step 2.9/127, the noise of one operand a step
    // over sqrt(12), that of a product sqrt(2) times as much.
    for (what, error, expected) in [
        ("nvfp4 tensor", relative_error(&a.decoded(), &wide(&x)), 0.094),
        (
            "nvfp4 product",
            relative_error(&product(&a, &b, None), &exact),
            0.135,
        ),
        (
            "int8 product",
            relative_error(&int8_linear(&x, &wq, &ws, None, k), &exact),
            0.0095,
        ),
    ] {
        assert!(
            (error / expected - 1.0).abs() < 0.08,
            "{what}: {error}, not {expected}"
        );
    }
}
