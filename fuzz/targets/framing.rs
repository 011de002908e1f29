// Whatever a backend writes: each frame taken obeys the limits, moves the stream on, and is the
// same message when it is written again. And it is the same when it comes in two pieces.

use tidegate::framing::{FrameCodec, Framing};

pub fn run(data: &[u8]) {
    let Some((&[choice, limit_low, limit_high], mut stream)) = data.split_first_chunk() else {
        return;
    };
    let framing = Framing::ALL[usize::from(choice) % Framing::ALL.len()];
    let limit = usize::from(u16::from_le_bytes([limit_low, limit_high]));
    let codec = FrameCodec::new(framing, choice & 0x40 != 0, choice & 0x80 != 0, limit);
    comes_in_pieces(&codec, stream);
    while let Ok(Some(frame)) = codec.decode(stream) {
        let payload = &stream[frame.payload.clone()];
        assert!(frame.consumed > 0 && frame.consumed <= stream.len());
        assert!(payload.len() <= codec.max_message());
        let mut again = Vec::new();
        codec
            .encode(frame.channel, payload, &mut again)
            .expect("what was read as a frame can be written as one");
        assert!(again.len() <= codec.max_frame());
        let same = codec.decode(&again).expect("own frames are good").expect("and whole");
        assert_eq!(same.channel, frame.channel);
        assert_eq!(&again[same.payload], payload);
        stream = &stream[frame.consumed..];
        comes_in_pieces(&codec, stream);
    }
}

fn comes_in_pieces(codec: &FrameCodec, stream: &[u8]) {
    let first = stream.len() / 2;
    if let Ok(None) = codec.decode(&stream[..first]) {
        assert_eq!(codec.decode_from(first, stream), codec.decode(stream));
    }
}

pub fn seeds() -> Vec<Vec<u8>> {
    let message = b"hello\n";
    let mut seeds = Vec::new();
    for (index, framing) in Framing::ALL.into_iter().enumerate() {
        for flags in [0, 0x40, 0x80, 0xc0] {
            // The flags are folded into the choice, which must still name this framing.
            let Some(choice) = (0..=u8::MAX)
                .filter(|byte| byte & 0xc0 == flags)
                .find(|byte| usize::from(*byte) % Framing::ALL.len() == index)
            else {
                continue;
            };
            let codec = FrameCodec::new(framing, flags & 0x40 != 0, flags & 0x80 != 0, 300);
            let mut seed = vec![choice, 44, 1];
            let text = if framing == Framing::Line { &message[..5] } else { &message[..] };
            for _ in 0..3 {
                codec.encode(1, text, &mut seed).expect("short enough");
            }
            seeds.push(seed);
        }
    }
    seeds
}
