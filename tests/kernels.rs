//! Host kernels one by one: small cases worked out by hand, plain re-computations, and refusal of wrong lengths.

#![expect(clippy::unwrap_used, reason = "a helper of a test fails like a test")]

use vramscope::base::random::Random;
use vramscope::ops::host::attention::{append_kv, attention};
use vramscope::ops::host::convrot::{RotationGroup, rotate, rotate_into};
use vramscope::ops::host::elementwise::{add, add_in_place, silu_mul};
use vramscope::ops::host::embedding::{embed_bf16, embed_f32};
use vramscope::ops::host::formats::{bf16_narrow, bf16_widen};
use vramscope::ops::host::int8;
use vramscope::ops::host::linear::{linear_bf16, linear_f32};
use vramscope::ops::host::logits::argmax;
use vramscope::ops::host::norm::rms_norm;
use vramscope::ops::host::nvfp4::{self, Layout, Operand, TensorScale};
use vramscope::ops::host::rope::rope;
use vramscope::ops::host::shape::{HeadShape, LinearShape, Positions, ShapeError};

const HEADS: HeadShape = HeadShape {
    heads: 4,
    kv_heads: 2,
    head_dim: 6,
};

fn noise(seed: u64, len: usize) -> Vec<f32> {
    let mut random = Random::seeded(seed);
    (0..len).map(|_| random.unit() * 4.0 - 2.0).collect()
}

fn at(first: usize, count: usize) -> Positions {
    Positions { first, count }
}

fn shape(rows: usize, inputs: usize, outputs: usize) -> LinearShape {
    LinearShape {
        rows,
        inputs,
        outputs,
    }
}

#[track_caller]
fn close(found: &[f32], expected: &[f64], tolerance: f64) {
    assert_eq!(found.len(), expected.len());
    for (a, b) in found.iter().zip(expected) {
        assert!((f64::from(*a) - b).abs() <= tolerance, "{a} is not {b}");
    }
}

#[track_caller]
fn refused<T: std::fmt::Debug>(result: Result<T, ShapeError>, message: &str) {
    assert_eq!(result.unwrap_err().to_string(), message);
}

// Results.

#[test]
fn embedding_takes_rows_by_id() {
    let table: Vec<f32> = (0..6).map(|v| v as f32).collect();
    let mut out = [f32::NAN; 6];
    embed_f32(&table, 2, &[2, 0, 2], &mut out).unwrap();
    assert_eq!(out, [4.0, 5.0, 0.0, 1.0, 4.0, 5.0]);
    let table: Vec<u16> = table.iter().map(|v| bf16_narrow(*v)).collect();
    let mut short = [f32::NAN; 6];
    embed_bf16(&table, 2, &[2, 0, 2], &mut short).unwrap();
    assert_eq!(short, out);
}

#[test]
fn norm_gives_rows_of_unit_mean_square() {
    let x = [3.0, 4.0, 0.0, 0.0];
    let mut out = [f32::NAN; 4];
    rms_norm(&x, &[1.0, 2.0], 0.0, &mut out[..2]).unwrap_err();
    rms_norm(&x, &[1.0, 2.0], 1e-5, &mut out).unwrap();
    let factor = 1.0 / (12.5f64 + 1e-5).sqrt();
    close(&out, &[3.0 * factor, 8.0 * factor, 0.0, 0.0], 1e-6);
}

#[test]
fn rotary_positions_pair_the_halves_of_a_head() {
    let (mut q, mut k) = (noise(1, 3 * 24), noise(2, 3 * 12));
    let (q_before, k_before) = (q.clone(), k.clone());
    rope(&mut q, &mut k, HEADS, at(500, 3), 10_000.0).unwrap();
    for (x, before, width) in [(&q, &q_before, 24), (&k, &k_before, 12)] {
        let mut expected = vec![0f64; x.len()];
        for i in (0..x.len()).filter(|i| i % 6 < 3) {
            let angle = (500 + i / width) as f64 * 10_000f64.powf(-((i % 6) as f64) / 3.0);
            let (a, b) = (f64::from(before[i]), f64::from(before[i + 3]));
            expected[i] = a * angle.cos() - b * angle.sin();
            expected[i + 3] = b * angle.cos() + a * angle.sin();
        }
        // The angle, up to 502, is rounded to f32 as in training.
        close(x, &expected, 1e-4);
    }
    let (mut q, mut k) = (q_before.clone(), k_before.clone());
    rope(&mut q[..24], &mut k[..12], HEADS, at(0, 1), 10_000.0).unwrap();
    assert_eq!((q, k), (q_before, k_before), "position 0 is not turned");
}

#[test]
fn attention_is_causal_and_shares_heads() {
    // Heads are mixed 16 values at once: none, one, and one and a rest.
    for head_dim in [6, 16, 20] {
        check_attention(HeadShape { head_dim, ..HEADS });
    }
}

fn check_attention(heads: HeadShape) {
    let (rows, first, dim) = (3, 2, heads.head_dim);
    let (wide, width) = (heads.query_width(), heads.kv_width());
    let (q, mut k_cache, mut v_cache) = (noise(3, rows * wide), noise(4, 8 * width), noise(5, 8 * width));
    let (k, v) = (noise(6, rows * width), noise(7, rows * width));
    let untouched = k_cache.clone();
    append_kv(&k, &v, width, at(first, rows), &mut k_cache, &mut v_cache).unwrap();
    let (start, end) = (first * width, (first + rows) * width);
    assert_eq!(k_cache[start..end], k);
    assert_eq!(k_cache[..start], untouched[..start]);
    assert_eq!(k_cache[end..], untouched[end..]);
    // What lies beyond the sequence must not matter.
    k_cache[end..].fill(f32::NAN);
    v_cache[end..].fill(f32::NAN);

    let (mut scratch, mut out) = (vec![f32::NAN; 5], vec![f32::NAN; rows * wide]);
    attention(
        &q,
        &k_cache,
        &v_cache,
        heads,
        at(first, rows),
        &mut scratch,
        &mut out,
    )
    .unwrap();
    let [q, k_cache, v_cache] =
        [q, k_cache, v_cache].map(|x| x.iter().map(|v| f64::from(*v)).collect::<Vec<f64>>());
    let mut expected = Vec::new();
    for (i, q) in q.chunks(dim).enumerate() {
        let (row, head) = (i / 4, i % 4);
        let place = |p: usize| p * width + head / 2 * dim;
        let weights: Vec<f64> = (0..=first + row)
            .map(|p| {
                q.iter()
                    .zip(&k_cache[place(p)..])
                    .map(|(a, b)| a * b)
                    .sum::<f64>()
            })
            .map(|score| (score / (dim as f64).sqrt()).exp())
            .collect();
        let sum: f64 = weights.iter().sum();
        for d in 0..dim {
            let mixed = weights.iter().enumerate().map(|(p, w)| w * v_cache[place(p) + d]);
            expected.push(mixed.sum::<f64>() / sum);
        }
    }
    close(&out, &expected, 4e-6);
}

#[test]
fn attention_survives_large_scores() {
    let heads = HeadShape {
        heads: 1,
        kv_heads: 1,
        head_dim: 1,
    };
    let mut out = [f32::NAN];
    let (keys, values) = ([1e4, -1e4], [7.0, 5.0]);
    attention(&[1e4], &keys, &values, heads, at(1, 1), &mut [0.0; 2], &mut out).unwrap();
    assert_eq!(out, [7.0]);
}

#[test]
fn gate_and_sums() {
    let mut out = [f32::NAN; 4];
    silu_mul(&[0.0, 1.0, -100.0, 100.0], &[5.0, 2.0, 3.0, 0.5], &mut out).unwrap();
    close(&out, &[0.0, 2.0 / (1.0 + (-1f64).exp()), 0.0, 50.0], 1e-6);
    add(&[1.0, 2.0], &[10.0, 20.0], &mut out[..2]).unwrap();
    add_in_place(&mut out[..2], &[0.5, 0.5]).unwrap();
    assert_eq!(out[..2], [11.5, 22.5]);
}

#[test]
fn products_of_any_length_are_right() {
    // Around the 16 partial sums, and around the 1,024 elements that are rounded at once.
    for k in [0, 1, 15, 16, 17, 33, 1023, 1024, 1025, 2500] {
        let (x, w) = (noise(8, 2 * k), noise(9, 3 * k));
        let bits: Vec<u16> = w.iter().map(|v| bf16_narrow(*v)).collect();
        let round = |v: f32| f64::from(bf16_widen(bf16_narrow(v)));
        let (mut full, mut short) = ([f32::NAN; 6], [f32::NAN; 6]);
        linear_f32(&x, &w, shape(2, k, 3), &mut full).unwrap();
        linear_bf16(&x, &bits, shape(2, k, 3), &mut short).unwrap();
        let dot = |i: usize, widen: &dyn Fn(f32) -> f64| -> f64 {
            let (x, w) = (&x[i / 3 * k..][..k], &w[i % 3 * k..][..k]);
            x.iter().zip(w).map(|(x, w)| widen(*x) * widen(*w)).sum()
        };
        let expected: Vec<f64> = (0..6).map(|i| dot(i, &f64::from)).collect();
        close(&full, &expected, 2e-4);
        let expected: Vec<f64> = (0..6).map(|i| dot(i, &round)).collect();
        close(&short, &expected, 2e-4);
    }
}

#[test]
fn argmax_takes_the_first_largest_of_the_last_row() {
    let (nan, low) = (f32::NAN, f32::NEG_INFINITY);
    for (logits, vocab, expected) in [
        (&[9.0, 1.0, 3.0, 3.0][..], 2, 0),
        (&[9.0, 1.0, 3.0, 4.0], 2, 1),
        (&[nan, 2.0, nan, 2.0], 4, 1),
        (&[nan, low], 2, 1),
        (&[nan, nan], 2, 0),
        (&[low, low], 2, 0),
    ] {
        let mut out = [99];
        argmax(logits, vocab, &mut out).unwrap();
        assert_eq!(out, [expected], "{logits:?}");
    }
}

// Refusals.

#[test]
fn decoder_kernels_refuse_lengths_that_do_not_fit() {
    let mut out = [f32::NAN; 4];
    let table = [0.0; 6];
    refused(
        embed_f32(&table, 2, &[0], &mut out),
        "argument out holds 4 elements, not 2",
    );
    refused(
        embed_f32(&table, 2, &[0, 3], &mut out),
        "argument ids holds 3, not below 3",
    );
    refused(
        embed_f32(&table, 0, &[], &mut []),
        "argument table is 6 long, not a multiple of 0",
    );
    refused(
        rms_norm(&[0.0; 5], &[1.0; 2], 0.0, &mut out),
        "argument x is 5 long, not a multiple of 2",
    );
    let odd = HeadShape { head_dim: 3, ..HEADS };
    refused(
        rope(&mut [], &mut [], odd, at(0, 0), 1e4),
        "argument head_dim is 3 long, not a multiple of 2",
    );
    refused(
        rope(&mut [0.0; 24], &mut [0.0; 6], HEADS, at(0, 1), 1e4),
        "argument k holds 6 elements, not 12",
    );
    refused(
        silu_mul(&[0.0; 4], &[0.0; 3], &mut out),
        "argument up holds 3 elements, not 4",
    );
    refused(
        add(&[0.0; 3], &[0.0; 3], &mut out),
        "argument out holds 4 elements, not 3",
    );
    refused(
        add_in_place(&mut out, &[0.0]),
        "argument y holds 1 elements, not 4",
    );
    refused(
        linear_f32(&[0.0; 4], &[0.0; 7], shape(1, 4, 2), &mut out),
        "argument w holds 7 elements, not 8",
    );
    refused(
        linear_bf16(&[0.0; 4], &[0; 8], shape(2, 4, 2), &mut out),
        "argument x holds 4 elements, not 8",
    );
    refused(
        argmax(&[], 0, &mut [0]),
        "argument logits holds 0 elements, under the 1 needed",
    );
    refused(
        argmax(&[0.0; 4], 3, &mut [0]),
        "argument logits is 4 long, not a multiple of 3",
    );
    assert!(out.iter().all(|v| v.is_nan()), "outputs are untouched");
}

#[test]
fn attention_refuses_lengths_that_do_not_fit() {
    let mut cache = ([0.0; 36], [0.0; 36]);
    let rows = ([1.0; 24], [1.0; 24]);
    let (k, v) = (&mut cache.0, &mut cache.1);
    refused(
        append_kv(&rows.0, &rows.1, 12, at(2, 2), k, v),
        "argument k_cache holds 36 elements, under the 48 needed",
    );
    refused(
        append_kv(&rows.0, &rows.1, 12, at(usize::MAX, 2), k, v),
        &format!(
            "argument k_cache holds 36 elements, under the {} needed",
            usize::MAX
        ),
    );
    refused(
        append_kv(&rows.0, &rows.1[..12], 12, at(0, 2), k, v),
        "argument v holds 12 elements, not 24",
    );
    assert_eq!(cache, ([0.0; 36], [0.0; 36]));
    let (k, v, mut out) = (&cache.0, &cache.1, [f32::NAN; 24]);
    let mut run = |heads, positions, scratch: usize| {
        attention(
            &[0.0; 24],
            k,
            v,
            heads,
            positions,
            &mut vec![0.0; scratch],
            &mut out,
        )
    };
    refused(
        run(HEADS, at(2, 1), 2),
        "argument scratch holds 2 elements, under the 3 needed",
    );
    refused(
        run(HEADS, at(3, 1), 4),
        "argument k_cache holds 36 elements, under the 48 needed",
    );
    refused(run(HEADS, at(0, 2), 4), "argument q holds 24 elements, not 48");
    let uneven = HeadShape { kv_heads: 3, ..HEADS };
    refused(
        run(uneven, at(0, 1), 4),
        "argument heads is 4 long, not a multiple of 3",
    );
    let none = HeadShape { kv_heads: 0, ..HEADS };
    refused(
        run(none, at(0, 1), 4),
        "argument heads is 4 long, not a multiple of 0",
    );
    run(HEADS, at(2, 1), 3).unwrap();
}

#[test]
fn nvfp4_refuses_lengths_that_do_not_fit() {
    let layout = Layout::padded(3, 20);
    assert_eq!(
        (
            layout.stored_rows(),
            layout.stored_cols(),
            layout.codes_bytes(),
            layout.scales_bytes()
        ),
        (16, 32, 256, 512)
    );
    let (mut codes, mut scales, mut cell) = (vec![1; 256], vec![1; 512], [0.0]);
    let mut run = |x: usize, codes_len: usize, scales_len: usize, cells: usize| {
        let x = vec![1.0; x];
        let (codes, scales) = (&mut codes[..codes_len], &mut scales[..scales_len]);
        nvfp4::quantize(
            &x,
            layout,
            TensorScale::Measured,
            codes,
            scales,
            &mut cell[..cells],
        )
    };
    refused(run(59, 256, 512, 1), "argument x holds 59 elements, not 60");
    refused(run(60, 255, 512, 1), "argument codes holds 255 elements, not 256");
    refused(
        run(60, 256, 511, 1),
        "argument scales holds 511 elements, not 512",
    );
    refused(
        run(60, 256, 512, 0),
        "argument tensor_scale holds 0 elements, not 1",
    );
    run(60, 256, 512, 1).unwrap();
    refused(
        Operand::new(layout, &codes[1..], &scales, 1.0),
        "argument codes holds 255 elements, not 256",
    );
    refused(
        Operand::new(layout, &codes, &scales[1..], 1.0),
        "argument scales holds 511 elements, not 512",
    );
    let a = Operand::new(layout, &codes, &scales, 1.0).unwrap();
    let mut out = [f32::NAN; 9];
    refused(
        nvfp4::gemm(&a, &a, None, &mut out[1..]),
        "argument out holds 8 elements, not 9",
    );
    refused(
        nvfp4::gemm(&a, &a, Some(&[0.0]), &mut out),
        "argument bias holds 1 elements, not 3",
    );
    let (codes, scales) = (vec![0; 8], vec![0; 512]);
    let narrow = Operand::new(Layout::exact(1, 16), &codes, &scales, 1.0).unwrap();
    refused(
        nvfp4::gemm(&a, &narrow, None, &mut out),
        "argument columns of b holds 16 elements, not 20",
    );
    refused(
        nvfp4::dequantize(&a, &mut out),
        "argument out holds 9 elements, not 512",
    );
    refused(
        nvfp4::dequantize_bf16(&a, &mut [0; 3]),
        "argument out holds 3 elements, not 512",
    );
    let endless = Layout::padded(usize::MAX, usize::MAX);
    assert_eq!(
        (endless.codes_bytes(), endless.scales_bytes()),
        (usize::MAX, usize::MAX)
    );
}

#[test]
fn int8_refuses_lengths_that_do_not_fit() {
    let (x, w) = ([1.0f32; 6], [1i8; 6]);
    let (mut codes, mut acc, mut out) = ([9i8; 6], [9; 4], [f32::NAN; 4]);
    refused(
        int8::quantize_rowwise(&x, 4, &mut codes, &mut [0.0; 2]),
        "argument x is 6 long, not a multiple of 4",
    );
    refused(
        int8::quantize_rowwise(&x, 3, &mut codes, &mut [0.0; 3]),
        "argument scales holds 3 elements, not 2",
    );
    refused(
        int8::quantize_tensorwise(&x, &mut codes[1..], &mut [0.0]),
        "argument codes holds 5 elements, not 6",
    );
    refused(
        int8::quantize_stochastic(&x, 1.0, 0, &mut codes[1..]),
        "argument codes holds 5 elements, not 6",
    );
    refused(
        int8::gemm(&w, &w[1..], shape(2, 3, 2), &mut acc),
        "argument w holds 5 elements, not 6",
    );
    refused(
        int8::scale(&acc, &[1.0], &[1.0], None, shape(2, 3, 2), &mut out),
        "argument x_scales holds 1 elements, not 2",
    );
    let mut run = |ws: &[f32], bias: &[f32], scratch: usize| {
        int8::linear(
            &x,
            &w,
            ws,
            Some(bias),
            shape(2, 3, 2),
            &mut codes[..scratch],
            &mut out,
        )
    };
    refused(
        run(&[1.0; 3], &[0.0; 2], 3),
        "argument w_scales holds 3 elements, not 2",
    );
    refused(run(&[1.0], &[0.0; 1], 3), "argument bias holds 1 elements, not 2");
    refused(
        run(&[1.0], &[0.0; 2], 2),
        "argument codes holds 2 elements, not 3",
    );
    assert!(codes == [9; 6] && acc == [9; 4] && out.iter().all(|v| v.is_nan()));
}

#[test]
fn rotation_refuses_lengths_that_do_not_fit() {
    let group = RotationGroup::new(16).unwrap();
    refused(
        rotate(&mut [0.0; 24], 24, group),
        "argument cols is 24 long, not a multiple of 16",
    );
    refused(
        rotate(&mut [0.0; 48], 32, group),
        "argument x is 48 long, not a multiple of 32",
    );
    refused(
        rotate_into(&[0.0; 32], 32, group, &mut [0.0; 16]),
        "argument out holds 16 elements, not 32",
    );
}

#[test]
fn empty_arguments_are_fine() {
    let none = HeadShape {
        heads: 0,
        kv_heads: 0,
        head_dim: 0,
    };
    embed_f32(&[], 0, &[], &mut []).unwrap();
    rms_norm(&[], &[], 1e-5, &mut []).unwrap();
    rope(&mut [], &mut [], none, at(0, 0), 1e4).unwrap();
    append_kv(&[], &[], 0, at(0, 0), &mut [], &mut []).unwrap();
    attention(&[], &[], &[], none, at(0, 0), &mut [], &mut []).unwrap();
    linear_f32(&[], &[], shape(0, 0, 0), &mut []).unwrap();
    int8::quantize_rowwise::<f32>(&[], 0, &mut [], &mut []).unwrap();
    int8::linear::<f32>(&[], &[], &[], None, shape(0, 0, 0), &mut [], &mut []).unwrap();
    int8::scale::<f32>(&[], &[], &[], None, shape(0, 0, 0), &mut []).unwrap();
    let layout = Layout::padded(0, 0);
    let counts = nvfp4::quantize(&[], layout, TensorScale::Measured, &mut [], &mut [], &mut [0.0]).unwrap();
    assert_eq!(counts.blocks, 0);
    let operand = Operand::new(layout, &[], &[], 1.0).unwrap();
    nvfp4::gemm(&operand, &operand, None, &mut []).unwrap();
    nvfp4::dequantize(&operand, &mut []).unwrap();
    let mut out = [f32::NAN; 3];
    let [a, b] = [1, 3].map(|rows| Operand::new(Layout::exact(rows, 0), &[], &[], 1.0).unwrap());
    nvfp4::gemm(&a, &b, Some(&[1.0, 2.0, 3.0]), &mut out).unwrap();
    assert_eq!(out, [1.0, 2.0, 3.0], "without columns the bias remains");
    rotate(&mut [], 0, RotationGroup::new(4).unwrap()).unwrap();
}
