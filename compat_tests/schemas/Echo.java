import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.HexFormat;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.protocol.Readable;

/**
 * Reads messages with Apache Kafka's own classes and writes them again.
 *
 * Each line of the file that the argument names is a class, a version and the message in hexadecimal. For each it
 * prints a line: "same", or the difference.
 */
public class Echo {
    public static void main(String[] arguments) throws Exception {
        for (String line : Files.readAllLines(Path.of(arguments[0]))) {
            String[] parts = line.split(" ", -1);
            System.out.println(echo(parts[0], Short.parseShort(parts[1]), HexFormat.of().parseHex(parts[2])));
        }
    }

    private static String echo(String className, short version, byte[] bytes) {
        try {
            ByteBuffer input = ByteBuffer.wrap(bytes);
            ApiMessage message = (ApiMessage) Class.forName(className)
                .getConstructor(Readable.class, short.class)
                .newInstance(new ByteBufferAccessor(input), version);
            if (input.hasRemaining()) {
                return input.remaining() + " bytes are left over by " + message;
            }
            ByteBuffer output = MessageUtil.toByteBufferAccessor(message, version).buffer();
            byte[] written = new byte[output.remaining()];
            output.get(written);
            return Arrays.equals(bytes, written) ? "same" : "wrote " + HexFormat.of().formatHex(written);
        } catch (ReflectiveOperationException | RuntimeException error) {
            return String.valueOf(error.getCause() == null ? error : error.getCause()).replace('\n', ' ');
        }
    }
}
