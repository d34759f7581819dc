import java.io.StringReader;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.Map;
import java.util.Scanner;
import java.util.TreeMap;

/**
 * Reads properties files with java.util.Properties. Each line of the input is one file, UTF-8 in base64. Each line of
 * the output is "malformed", or the pairs of the file in the order of their keys: key and value as hexadecimal UTF-16
 * with `=` between them, and a blank between pairs.
 */
public class Properties {
    public static void main(String[] arguments) throws Exception {
        Scanner files = new Scanner(System.in, StandardCharsets.US_ASCII);
        StringBuilder out = new StringBuilder();
        while (files.hasNextLine()) {
            String text = new String(Base64.getDecoder().decode(files.nextLine()), StandardCharsets.UTF_8);
            out.append(read(text)).append('\n');
        }
        System.out.print(out);
    }

    private static String read(String text) throws Exception {
        java.util.Properties properties = new java.util.Properties();
        try {
            properties.load(new StringReader(text));
        } catch (IllegalArgumentException malformed) {
            return "malformed";
        }
        StringBuilder pairs = new StringBuilder();
        for (Map.Entry<Object, Object> pair : new TreeMap<>(properties).entrySet()) {
            pairs.append(hex((String) pair.getKey())).append('=').append(hex((String) pair.getValue())).append(' ');
        }
        return pairs.toString();
    }

    private static String hex(String text) {
        StringBuilder digits = new StringBuilder();
        for (char unit : text.toCharArray()) {
            digits.append(String.format("%04x", (int) unit));
        }
        return digits.toString();
    }
}
