// The same from C#, as Unity and Godot have it: the smallest binding, and an echo test with it.
//
//     mcs -out:Echo.exe Echo.cs && LD_LIBRARY_PATH=target/release mono Echo.exe token.bin
//
// In Unity: the library goes into Assets/Plugins/x86_64, class TidegateClient into any script, Update()
// of a MonoBehaviour calls Update() here. In Godot with .NET: the library beside the executable, and
// _Process calls Update().

using System;
using System.Runtime.InteropServices;
using System.Text;

public sealed class TidegateClient : IDisposable
{
    public const int Connecting = 1, Connected = 2, Closing = 3, Closed = 4;
    public const int EndedHere = 1;
    const int Abi = 1; // the TIDEGATE_ABI of the header that this was written by
    const int ErrorFull = -2;

    [StructLayout(LayoutKind.Sequential)]
    struct Message
    {
        public IntPtr Payload;
        public UIntPtr Length;
        public byte Channel;
        public byte Reliable;
    }

    const string Library = "tidegate_c";

    [DllImport(Library)] static extern int tidegate_abi();
    [DllImport(Library)] static extern ulong tidegate_now();
    [DllImport(Library)] static extern IntPtr tidegate_error_text(int error);
    [DllImport(Library)] static extern IntPtr tidegate_ended_text(int ended);
    [DllImport(Library)] static extern int tidegate_client_yojimbo(
        byte[] token, UIntPtr length, int io, ulong now, out IntPtr client);
    [DllImport(Library)] static extern int tidegate_client_update(IntPtr client, ulong now);
    [DllImport(Library)] static extern int tidegate_client_flush(IntPtr client, ulong now);
    [DllImport(Library)] static extern int tidegate_client_send(
        IntPtr client, ulong now, byte[] payload, UIntPtr length);
    [DllImport(Library)] static extern int tidegate_client_send_unreliable(
        IntPtr client, ulong now, byte[] payload, UIntPtr length);
    [DllImport(Library)] static extern int tidegate_client_poll_message(IntPtr client, out Message message);
    [DllImport(Library)] static extern int tidegate_client_finish(IntPtr client, ulong now, ulong linger);
    [DllImport(Library)] static extern int tidegate_client_ended(IntPtr client);
    [DllImport(Library)] static extern void tidegate_client_free(IntPtr client);

    IntPtr client;

    public TidegateClient(byte[] token)
    {
        if (tidegate_abi() != Abi)
            throw new InvalidOperationException("the library is of another tidegate than this class");
        Check(tidegate_client_yojimbo(token, (UIntPtr)token.Length, 1, tidegate_now(), out client));
    }

    static void Check(int error)
    {
        if (error != 0)
            throw new InvalidOperationException(Marshal.PtrToStringAnsi(tidegate_error_text(error)));
    }

    static int Answer(int value)
    {
        Check(Math.Min(value, 0));
        return value;
    }

    static bool Queued(int error)
    {
        if (error == ErrorFull)
            return false;
        Check(error);
        return true;
    }

    // Once a frame; the state.
    public int Update()
    {
        // A loop that waits for Closed would otherwise wait for ever.
        return Answer(tidegate_client_update(client, tidegate_now()));
    }

    // False when the queue is full, or before the handshake is over: try again in a later frame.
    public bool Send(byte[] payload)
    {
        return Queued(tidegate_client_send(client, tidegate_now(), payload, (UIntPtr)payload.Length));
    }

    public bool SendUnreliable(byte[] payload)
    {
        return Queued(tidegate_client_send_unreliable(client, tidegate_now(), payload, (UIntPtr)payload.Length));
    }

    // The next message, or null.
    public byte[] Receive()
    {
        Message message;
        if (Answer(tidegate_client_poll_message(client, out message)) == 0)
            return null;
        var payload = new byte[(int)message.Length];
        Marshal.Copy(message.Payload, payload, 0, payload.Length);
        return payload;
    }

    public void Flush() { Check(tidegate_client_flush(client, tidegate_now())); }

    public void Finish() { Check(tidegate_client_finish(client, tidegate_now(), 5000000000UL)); }

    public int Ended { get { return Answer(tidegate_client_ended(client)); } }

    public string EndedText { get { return Marshal.PtrToStringAnsi(tidegate_ended_text(Ended)); } }

    public void Dispose()
    {
        tidegate_client_free(client);
        client = IntPtr.Zero;
    }
}

static class Echo
{
    static int Main(string[] arguments)
    {
        if (arguments.Length != 1 || !System.IO.File.Exists(arguments[0]))
        {
            Console.Error.WriteLine("usage: Echo TOKENFILE, which `tidegate token mint --out` writes");
            return 2;
        }
        const int messages = 200;
        int said = 0, heard = 0;
        using (var client = new TidegateClient(System.IO.File.ReadAllBytes(arguments[0])))
        {
            var patience = DateTime.UtcNow.AddSeconds(60);
            while (client.Update() != TidegateClient.Closed && DateTime.UtcNow < patience)
            {
                if (said < messages && client.Send(Encoding.UTF8.GetBytes("message " + said)))
                    said++;
                for (byte[] message; (message = client.Receive()) != null; heard++)
                    if (Encoding.UTF8.GetString(message) != "message " + heard)
                        throw new InvalidOperationException("message " + heard + " is not what was sent");
                if (heard == messages)
                    client.Finish();
                client.Flush();
                System.Threading.Thread.Sleep(5); // a frame
            }
            Console.WriteLine(heard + " of " + messages + " came back; " + client.EndedText);
            return heard == messages && client.Ended == TidegateClient.EndedHere ? 0 : 1;
        }
    }
}
