"""Change blocks to messages: keys and values as JSON text, straight from column buffers"""
