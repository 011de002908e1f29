// A whole client in C++, for yojimbo 1.9.1: sends frames and a block to a backend that echoes, and
// checks that every one of them comes back once, whole and in order. How to build it: docs/YOJIMBO.md.
//
//     yojimbo_client TOKEN_FILE        the file that `tidegate token mint --out` writes

#include <yojimbo.h>
#include <cstdio>
#include <cstring>
#include <string>

// ---- the same as on the server: see docs/YOJIMBO.md before you change any of it

constexpr uint64_t kProtocolId = 0x3174616765646974ull;   // "tidegat1"
constexpr int kFrameBytesMax = 7000;
constexpr int kReliable = 0;
constexpr int kUnreliable = 1;

// One message of the game, up to kFrameBytesMax bytes, on either channel.
class GameFrame : public yojimbo::Message
{
public:
    std::string payload;

    template <typename Stream> bool Serialize(Stream & stream)
    {
        int size = int(payload.size());
        serialize_int(stream, size, 0, kFrameBytesMax);
        payload.resize(size_t(size));
        uint8_t nothing = 0;                    // never a null pointer, debug builds check
        uint8_t * bytes = size > 0 ? reinterpret_cast<uint8_t *>(&payload[0]) : &nothing;
        serialize_bytes(stream, bytes, size);
        return true;
    }

    YOJIMBO_VIRTUAL_SERIALIZE_FUNCTIONS();
};

// A longer one, up to 256 KiB, reliable only. The attached block is the payload.
class GameBlock : public yojimbo::BlockMessage
{
public:
    template <typename Stream> bool Serialize(Stream &) { return true; }

    YOJIMBO_VIRTUAL_SERIALIZE_FUNCTIONS();
};

enum GameMessage { kGameFrame, kGameBlock, kGameMessages };     // the order is the wire's

YOJIMBO_MESSAGE_FACTORY_START(GameMessageFactory, kGameMessages);
    YOJIMBO_DECLARE_MESSAGE_TYPE(kGameFrame, GameFrame);
    YOJIMBO_DECLARE_MESSAGE_TYPE(kGameBlock, GameBlock);
YOJIMBO_MESSAGE_FACTORY_FINISH();

class GameAdapter : public yojimbo::Adapter
{
public:
    yojimbo::MessageFactory * CreateMessageFactory(yojimbo::Allocator & allocator) override
    {
        return YOJIMBO_NEW(allocator, GameMessageFactory, allocator);
    }
};

yojimbo::ClientServerConfig DefaultLayout()
{
    yojimbo::ClientServerConfig config;
    config.protocolId = kProtocolId;
    config.numChannels = 2;
    config.channel[kReliable].type = yojimbo::CHANNEL_TYPE_RELIABLE_ORDERED;
    config.channel[kReliable].packetBudget = 7168;
    config.channel[kUnreliable].type = yojimbo::CHANNEL_TYPE_UNRELIABLE_UNORDERED;
    config.channel[kUnreliable].disableBlocks = true;
    config.fragmentPacketsAbove = 1152;
    config.networkSimulator = false;
    return config;
}

// ---- the game

constexpr int kFrames = 100;
constexpr int kBlockBytes = 20000;

static void SendFrame(yojimbo::Client & client, int number)
{
    GameFrame * frame = static_cast<GameFrame *>(client.CreateMessage(kGameFrame));
    frame->payload = "frame " + std::to_string(number);
    client.SendMessage(kReliable, frame);
}

static void SendBlock(yojimbo::Client & client)
{
    yojimbo::Message * message = client.CreateMessage(kGameBlock);
    uint8_t * block = client.AllocateBlock(kBlockBytes);
    memset(block, 7, kBlockBytes);
    client.AttachBlockToMessage(message, block, kBlockBytes);
    client.SendMessage(kReliable, message);
}

// Whether it is the one that is due: frames by number, then the block.
static bool IsExpected(yojimbo::Message * message, int number)
{
    if (message->GetType() == kGameFrame)
        return static_cast<GameFrame *>(message)->payload == "frame " + std::to_string(number);
    yojimbo::BlockMessage * block = static_cast<yojimbo::BlockMessage *>(message);
    return number == kFrames && block->GetBlockSize() == kBlockBytes && block->GetBlockData()[0] == 7;
}

static int Play(yojimbo::Client & client)
{
    int sent = 0, back = 0;
    for (double time = 100.0; time < 130.0 && back <= kFrames; time += 0.01)
    {
        if (client.IsDisconnected())
        {
            printf("disconnected after %d of %d (state %d)\n", back, kFrames + 1, client.GetClientState());
            return 1;
        }
        // A full queue is fatal, so ask before each message.
        for (; sent <= kFrames && client.IsConnected() && client.CanSendMessage(kReliable); sent++)
            sent < kFrames ? SendFrame(client, sent) : SendBlock(client);
        client.SendPackets();
        client.ReceivePackets();
        // Until it returns null, on every channel, every frame: what is left fills the queue.
        for (int channel = 0; client.IsConnected() && channel < 2; channel++)
        {
            while (yojimbo::Message * message = client.ReceiveMessage(channel))
            {
                const bool right = IsExpected(message, back++);
                client.ReleaseMessage(message);
                if (!right)
                {
                    printf("message %d is wrong\n", back - 1);
                    return 1;
                }
            }
        }
        client.AdvanceTime(time);
        yojimbo_sleep(0.01);
    }
    printf("%d of %d came back\n", back, kFrames + 1);
    return back == kFrames + 1 ? 0 : 1;
}

int main(int argc, char ** argv)
{
    uint8_t token[yojimbo::ConnectTokenBytes];
    FILE * file = argc == 2 ? fopen(argv[1], "rb") : nullptr;
    if (!file || fread(token, sizeof(token), 1, file) != 1)
    {
        printf("usage: yojimbo_client TOKEN_FILE (%d bytes)\n", int(sizeof(token)));
        return 2;
    }
    fclose(file);
    InitializeYojimbo();
    int result;
    {
        GameAdapter adapter;
        yojimbo::Client client(yojimbo::GetDefaultAllocator(), yojimbo::Address("0.0.0.0"), DefaultLayout(),
                               adapter, 100.0);
        client.Connect(0, token);               // the client id is in the token
        result = Play(client);
        client.Disconnect();
    }
    ShutdownYojimbo();
    return result;
}
